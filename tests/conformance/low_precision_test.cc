// Every op of the op table in bf16 and f16 on the CPU backend: the same operands, as they are
// rounded, in f32 on the reference backend, give the same result but for its own rounding.
#include "tests/conformance/low_precision.h"

#include <gtest/gtest.h>

#include "core/backends/cpu/cpu_backend.h"
#include "tests/conformance/checks.h"
#include "tests/support/status_matchers.h"

namespace latentd::testing {
namespace {

class LowPrecision : public ::testing::TestWithParam<LowCase> {};

TEST_P(LowPrecision, CpuRoundsWhatIsComputedInF32InEveryInstructionSet) {
  const LowRun run = PrepareLow(GetParam());
  ASSERT_NE(run.graph, nullptr);
  for (const char* name : {"avx512", "avx2", "baseline"}) {
    if (backends::cpu::KernelsByName(name) == nullptr) continue;
    ASSERT_OK_AND_ASSIGN(const auto cpu,
                         backends::cpu::CpuBackend::Create({.instruction_set = name}));
    SCOPED_TRACE(name);
    ExpectRounded(*cpu, run, RoundingsOf(*run.graph));
  }
}

INSTANTIATE_TEST_SUITE_P(Ops, LowPrecision, ::testing::ValuesIn(LowCases()), LowCaseName);

}  // namespace
}  // namespace latentd::testing
