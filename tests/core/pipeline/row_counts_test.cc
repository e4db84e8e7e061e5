// A picture is the same bytes at every number of rows that the CPU evaluates at once, in each of
// its instruction sets, in f32 and in bf16.
#include <memory>
#include <string>
#include <utility>
#include <vector>

#include "absl/strings/str_cat.h"
#include "tests/core/pipeline/step_lane_rig.h"

namespace latentd::pipeline {
namespace {

struct Way {
  const char* instruction_set;
  device::DType dtype;  // the UNet's
};

class RowCountsTest : public StepLaneTest, public ::testing::WithParamInterface<Way> {
 protected:
  static void SetUpTestSuite() {}  // each has a backend of its own
  void SetUp() override {
    const auto [instruction_set, dtype] = GetParam();
    auto backend = backends::cpu::CpuBackend::Create({.instruction_set = instruction_set});
    if (!backend.ok()) GTEST_SKIP() << "not on this machine";
    const LoadOptions options{.base = testing::kDemoBase, .precision = {{"unet_base", dtype}}};
    rig_ = std::make_unique<Rig>(options, "", *std::move(backend));
  }
  void TearDown() override { rig_.reset(); }

  std::vector<float> DrawAlone(const Picture& picture) {
    const auto lane = Lane({picture.rows()});
    auto place = Join(*lane, picture);
    Step(*lane, 2, picture.rows());
    return Leave(std::move(place));
  }
};

TEST_P(RowCountsTest, APictureIsTheSameAtEachOfThem) {
  const auto guided = Begin(Spec("a red circle on a blue background", 2, 3));
  const auto other = Begin(WithGuidance(Spec("a black square", 2, 5), 1));
  const std::vector<float> guided_alone = DrawAlone(*guided), other_alone = DrawAlone(*other);
  for (int rows : {4, 8, 16}) {
    const auto lane = Lane({1, 2, rows});
    std::vector<LanePlace> others;
    while (lane->rows_taken() < rows - 2) others.push_back(Join(*lane, *other));
    auto place = Join(*lane, *guided);
    Step(*lane, 2, rows);
    EXPECT_TRUE(Leave(std::move(place)) == guided_alone) << "with guidance, in " << rows;
    EXPECT_TRUE(Leave(std::move(others.back())) == other_alone) << "without, in " << rows;
  }
}

INSTANTIATE_TEST_SUITE_P(
    Cpu, RowCountsTest,
    ::testing::Values(Way{"baseline", device::DType::kF32}, Way{"avx2", device::DType::kF32},
                      Way{"avx512", device::DType::kF32}, Way{"baseline", device::DType::kBF16},
                      Way{"avx2", device::DType::kBF16}, Way{"avx512", device::DType::kBF16}),
    [](const auto& of) {
      const bool bf16 = of.param.dtype == device::DType::kBF16;
      return absl::StrCat(of.param.instruction_set, bf16 ? "_bf16" : "_f32");
    });

}  // namespace
}  // namespace latentd::pipeline
