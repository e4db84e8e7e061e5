// Promises of low-rank paths in every instruction set (tests/conformance/low_rank_promises.h).
#include <gtest/gtest.h>

#include <memory>
#include <string>
#include <tuple>

#include "absl/strings/str_cat.h"
#include "core/backends/cpu/cpu_backend.h"
#include "core/backends/reference/reference_backend.h"
#include "tests/conformance/low_rank_promises.h"

namespace latentd::backends::cpu {
namespace {

using device::DType;

class LowRankPaths : public ::testing::TestWithParam<std::tuple<const char*, DType>> {
 protected:
  void SetUp() override {
    const char* const name = std::get<0>(GetParam());
    if (KernelsByName(name) == nullptr) GTEST_SKIP() << "not on this machine";
    backend_ = CpuBackend::Create({.threads = 2, .instruction_set = name}).value();
  }
  DType dtype() const { return std::get<1>(GetParam()); }

  std::unique_ptr<CpuBackend> backend_;
};

TEST_P(LowRankPaths, LeaveARowOfNoSlotAsItIs) {
  testing::ExpectRowsOfNoSlotAsTheyAre(*backend_, dtype());
}

TEST_P(LowRankPaths, GiveARowTheBytesThatItHasAlone) {
  testing::ExpectRowsAsAlone(*backend_, dtype());
}

TEST_P(LowRankPaths, GiveTheSameBytesHoweverManyRanksAreZeros) {
  testing::ExpectZerosChangeNothing(*backend_, dtype());
}

std::string PathCaseName(const ::testing::TestParamInfo<LowRankPaths::ParamType>& info) {
  return absl::StrCat(std::get<0>(info.param), "_", device::Name(std::get<1>(info.param)));
}

INSTANTIATE_TEST_SUITE_P(InstructionSets, LowRankPaths,
                         ::testing::Combine(::testing::Values("avx512", "avx2", "baseline"),
                                            ::testing::Values(DType::kF32, DType::kBF16,
                                                              DType::kF16)),
                         PathCaseName);

TEST(LowRankReference, LeavesARowOfNoSlotAsItIs) {
  reference::ReferenceBackend backend;
  for (const DType dtype : {DType::kF32, DType::kBF16, DType::kF16}) {
    testing::ExpectRowsOfNoSlotAsTheyAre(backend, dtype);
  }
}

}  // namespace
}  // namespace latentd::backends::cpu
