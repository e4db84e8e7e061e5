// Every op of the op table on every backend: the reference backend against loops in double
// precision, the others against the reference backend.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "core/backends/cpu/cpu_backend.h"
#include "core/backends/reference/reference_backend.h"
#include "core/graph/op_table.h"
#include "tests/conformance/checks.h"
#include "tests/conformance/naive.h"
#include "tests/conformance/op_cases.h"
#include "tests/conformance/tolerance.h"
#include "tests/support/status_matchers.h"

namespace latentd::testing {
namespace {

using device::Buffer;

class OpConformance : public ::testing::TestWithParam<OpCase> {};

TEST_P(OpConformance, ReferenceComputesWhatLoopsInDoublePrecisionDo) {
  const PreparedCase p = Prepare(GetParam());
  ASSERT_NE(p.graph, nullptr);
  backends::reference::ReferenceBackend backend;
  ASSERT_OK_AND_ASSIGN(const std::vector<Buffer> outputs, RunOn(backend, p));
  const std::vector<Array> expected = EvaluateNaively(*p.graph, ToArrays(*p.graph, p.leaves));
  ASSERT_EQ(outputs.size(), expected.size());
  for (size_t i = 0; i < outputs.size(); ++i) {
    EXPECT_EQ(outputs[i].shape(), expected[i].shape);
    EXPECT_EQ(Difference("reference", outputs[i], expected[i].values), "");
  }
}

class CpuConformance : public ::testing::TestWithParam<OpCase> {};

// Each instruction set has its own loops and its own choice of kernels.
TEST_P(CpuConformance, CpuComputesWhatTheReferenceDoesInEveryInstructionSet) {
  const PreparedCase p = Prepare(GetParam());
  ASSERT_NE(p.graph, nullptr);
  backends::reference::ReferenceBackend reference;
  ASSERT_OK_AND_ASSIGN(const std::vector<Buffer> expected, RunOn(reference, p));
  for (const char* name : {"avx512", "avx2", "baseline"}) {
    if (backends::cpu::KernelsByName(name) == nullptr) continue;
    ASSERT_OK_AND_ASSIGN(const auto cpu,
                         backends::cpu::CpuBackend::Create({.instruction_set = name}));
    SCOPED_TRACE(name);
    ExpectOutputs("cpu", RunOn(*cpu, p), expected);
  }
}

INSTANTIATE_TEST_SUITE_P(Ops, CpuConformance, ::testing::ValuesIn(CasesWithoutF8()),
                         [](const auto& info) { return info.param.name; });

TEST(CpuRefusals, RefusesEightBitProductsByName) {
  ASSERT_OK_AND_ASSIGN(const auto cpu, backends::cpu::CpuBackend::Create({}));
  for (const OpCase& c : F8Cases()) {
    const PreparedCase p = Prepare(c);
    ASSERT_NE(p.graph, nullptr) << c.name;
    EXPECT_THAT(cpu->MakePlan(*p.graph),
                StatusIs(absl::StatusCode::kUnimplemented,
                         ::testing::HasSubstr("the CPU backend has no 8-bit products")))
        << c.name;
  }
}

INSTANTIATE_TEST_SUITE_P(Ops, OpConformance, ::testing::ValuesIn(AllOpCases()),
                         [](const auto& info) { return info.param.name; });

TEST(OpConformanceCases, CoverEveryOpOfTheTable) {
  for (const graph::OpRow& row : graph::OpTable()) {
    int cases = 0;
    for (const OpCase& c : AllOpCases()) cases += c.op == row.op;
    EXPECT_GT(cases, 0) << row.name;
  }
}

TEST(OpConformanceCases, ContainTheOpThatTheyAreAbout) {
  for (const OpCase& c : AllOpCases()) {
    const PreparedCase p = Prepare(c);
    ASSERT_NE(p.graph, nullptr);
    EXPECT_FALSE(p.graph->Select(c.op).empty()) << c.name;
  }
}

TEST(OpConformanceCases, AreKnownToTheLoopsInDoublePrecision) {
  for (const graph::OpRow& row : graph::OpTable()) {
    const bool bound = row.op == graph::Op::kInput || row.op == graph::Op::kWeight;
    EXPECT_EQ(KnownNaively(row.op), !bound) << row.name;
  }
}

TEST(OpConformanceCases, AToleranceIsStatedForEveryBackendAndFloat) {
  for (const char* backend : {"reference", "cpu", "cuda"}) {
    EXPECT_GT(ToleranceOf(backend, device::DType::kF32).abs, 0) << backend;
  }
}

}  // namespace
}  // namespace latentd::testing
