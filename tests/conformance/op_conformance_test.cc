// Every op of the op table on every backend: the reference backend against loops in double
// precision, the others against the reference backend.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <cmath>

#include "core/backends/cpu/cpu_backend.h"
#include "core/backends/reference/reference_backend.h"
#include "core/graph/op_table.h"
#include "core/weights/weight_store.h"
#include "tests/conformance/naive.h"
#include "tests/conformance/op_cases.h"
#include "tests/conformance/run_graph.h"
#include "tests/conformance/tolerance.h"
#include "tests/support/status_matchers.h"

namespace latentd::testing {
namespace {

using device::Buffer;

bool IsSame(double a, double b) { return a == b || (std::isnan(a) && std::isnan(b)); }

// The first element that is too far off, or "".
std::string Difference(const std::string& backend, const Buffer& actual,
                       const std::vector<double>& expected) {
  const Tolerance tolerance = ToleranceOf(backend, actual.dtype());
  const std::vector<double> values = ToDoubles(actual);
  if (values.size() != expected.size()) return "another number of elements";
  for (size_t i = 0; i < values.size(); ++i) {
    const double allowed = tolerance.abs + tolerance.rel * std::abs(expected[i]);
    if (IsSame(values[i], expected[i])) continue;
    if (std::abs(values[i] - expected[i]) <= allowed) continue;
    return "element " + std::to_string(i) + " is " + std::to_string(values[i]) + ", not " +
           std::to_string(expected[i]);
  }
  return "";
}

struct Prepared {
  std::shared_ptr<const graph::Graph> graph;
  Leaves leaves;
};

Prepared Prepare(const OpCase& c) {
  graph::GraphBuilder b;
  c.build(b);
  absl::StatusOr<graph::Graph> graph = std::move(b).Build();
  EXPECT_OK(graph) << c.name;
  if (!graph.ok()) return {};
  auto shared = std::make_shared<const graph::Graph>(*std::move(graph));
  return {shared, RandomLeaves(*shared, /*seed=*/17)};
}

absl::StatusOr<std::vector<Buffer>> RunOn(backends::Backend& backend, const Prepared& p) {
  weights::WeightStore store(backend);
  weights::WeightSet set(&store);
  set.Add("net", p.leaves.weights);
  return RunGraph(backend, p.graph, set, p.leaves.inputs);
}

class OpConformance : public ::testing::TestWithParam<OpCase> {};

TEST_P(OpConformance, ReferenceComputesWhatLoopsInDoublePrecisionDo) {
  const Prepared p = Prepare(GetParam());
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

// Each instruction set has its own loops and its own choice of kernels.
TEST_P(OpConformance, CpuComputesWhatTheReferenceDoesInEveryInstructionSet) {
  const Prepared p = Prepare(GetParam());
  ASSERT_NE(p.graph, nullptr);
  backends::reference::ReferenceBackend reference;
  ASSERT_OK_AND_ASSIGN(const std::vector<Buffer> expected, RunOn(reference, p));
  for (const char* name : {"avx512", "avx2", "baseline"}) {
    if (backends::cpu::KernelsByName(name) == nullptr) continue;
    ASSERT_OK_AND_ASSIGN(const auto cpu,
                         backends::cpu::CpuBackend::Create({.instruction_set = name}));
    ASSERT_OK_AND_ASSIGN(const std::vector<Buffer> outputs, RunOn(*cpu, p));
    ASSERT_EQ(outputs.size(), expected.size());
    for (size_t i = 0; i < outputs.size(); ++i) {
      EXPECT_EQ(outputs[i].shape(), expected[i].shape());
      EXPECT_EQ(Difference("cpu", outputs[i], ToDoubles(expected[i])), "") << name;
    }
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
    const Prepared p = Prepare(c);
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
  for (const char* backend : {"reference", "cpu"}) {
    EXPECT_GT(ToleranceOf(backend, device::DType::kF32).abs, 0) << backend;
  }
}

}  // namespace
}  // namespace latentd::testing
