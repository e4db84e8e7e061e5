// Every op of the op table in bf16 and f16 on the CPU backend: the same operands, as they are
// rounded, in f32 on the reference backend, give the same result but for its own rounding.
#include "tests/conformance/low_precision.h"

#include <gtest/gtest.h>

#include <cmath>

#include "absl/strings/str_cat.h"
#include "core/backends/cpu/cpu_backend.h"
#include "core/backends/reference/reference_backend.h"
#include "core/graph/op_table.h"
#include "core/weights/weight_store.h"
#include "tests/conformance/checks.h"
#include "tests/support/status_matchers.h"

namespace latentd::testing {
namespace {

using device::Buffer;
using device::DType;

class LowPrecision : public ::testing::TestWithParam<std::tuple<OpCase, DType>> {};

TEST_P(LowPrecision, CpuRoundsWhatIsComputedInF32InEveryInstructionSet) {
  const auto& [c, dtype] = GetParam();
  graph::GraphBuilder b;
  c.build(b);
  ASSERT_OK_AND_ASSIGN(const graph::Graph wide, std::move(b).Build());
  const graph::Graph low = InDType(wide, dtype);
  const Leaves leaves = RandomLeaves(low, /*seed=*/17);
  backends::reference::ReferenceBackend reference;
  ASSERT_OK_AND_ASSIGN(const std::vector<Buffer> expected,
                       RunOn(reference, Share(wide), Widened(leaves)));
  for (const char* name : {"avx512", "avx2", "baseline"}) {
    if (backends::cpu::KernelsByName(name) == nullptr) continue;
    ASSERT_OK_AND_ASSIGN(const auto cpu,
                         backends::cpu::CpuBackend::Create({.instruction_set = name}));
    ASSERT_OK_AND_ASSIGN(const std::vector<Buffer> outputs, RunOn(*cpu, Share(low), leaves));
    ASSERT_EQ(outputs.size(), expected.size());
    for (size_t i = 0; i < outputs.size(); ++i) {
      const bool is_float = expected[i].dtype() == DType::kF32;
      EXPECT_EQ(outputs[i].dtype(), is_float ? dtype : expected[i].dtype());
      EXPECT_EQ(outputs[i].shape(), expected[i].shape());
      EXPECT_EQ(RoundedDifference(outputs[i], expected[i], RoundingsOf(low)), "") << name;
    }
  }
}

INSTANTIATE_TEST_SUITE_P(Ops, LowPrecision,
                         ::testing::Combine(::testing::ValuesIn(CasesOfEveryDType()),
                                            ::testing::Values(DType::kBF16, DType::kF16)),
                         [](const auto& info) {
                           return std::get<0>(info.param).name + "_" +
                                  std::string(device::Name(std::get<1>(info.param)));
                         });

}  // namespace
}  // namespace latentd::testing
