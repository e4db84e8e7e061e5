// Promises of low-rank paths on a GPU (tests/conformance/low_rank_promises.h).
#include <gtest/gtest.h>

#include <memory>
#include <string>

#include "core/backends/cuda/cuda_backend.h"
#include "tests/conformance/low_rank_promises.h"

namespace latentd::backends::cuda {
namespace {

using device::DType;

class LowRankTest : public ::testing::TestWithParam<DType> {
 protected:
  void SetUp() override {
    auto backend = CudaBackend::Create();
    if (!backend.ok()) GTEST_SKIP() << "no GPU";
    backend_ = *std::move(backend);
  }

  std::unique_ptr<CudaBackend> backend_;
};

TEST_P(LowRankTest, LeavesARowOfNoSlotAsItIs) {
  testing::ExpectRowsOfNoSlotAsTheyAre(*backend_, GetParam());
}

TEST_P(LowRankTest, GivesARowTheBytesThatItHasAlone) {
  testing::ExpectRowsAsAlone(*backend_, GetParam());
}

TEST_P(LowRankTest, GivesTheSameBytesHoweverManyRanksAreZeros) {
  testing::ExpectZerosChangeNothing(*backend_, GetParam());
}

INSTANTIATE_TEST_SUITE_P(DTypes, LowRankTest,
                         ::testing::Values(DType::kF32, DType::kBF16, DType::kF16),
                         [](const auto& info) { return std::string(device::Name(info.param)); });

}  // namespace
}  // namespace latentd::backends::cuda
