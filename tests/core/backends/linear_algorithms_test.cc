// Linear layers and products by every algorithm that a plan may name, not only by the one that
// this machine's rules choose.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <algorithm>
#include <array>
#include <cmath>
#include <utility>

#include "absl/strings/str_cat.h"
#include "core/backends/cpu/binding/algorithms.h"
#include "core/backends/cpu/binding/kernel_rules.h"
#include "core/backends/cpu/binding/thread_count.h"
#include "core/backends/cpu/cpu_backend.h"
#include "core/backends/cpu/plan.h"
#include "core/backends/lowering/lowering.h"
#include "core/backends/reference/reference_backend.h"
#include "core/graph/graph_builder.h"
#include "core/graph/recipes.h"
#include "core/weights/weight_store.h"
#include "tests/conformance/run_graph.h"
#include "tests/support/run_executable.h"
#include "tests/support/status_matchers.h"

namespace latentd::backends::cpu {
namespace {

using graph::DType;
using graph::GraphBuilder;
using graph::Rate;
using graph::Value;

using GraphPointer = std::shared_ptr<const graph::Graph>;

struct Sizes {
  int64_t rows, in, out;
  bool weight_is_computed;
};

GraphPointer Linear(const Sizes& s) {
  GraphBuilder b;
  const Value x = b.Input("x", DType::kF32, {s.rows, s.in}, Rate::kStep);
  const Value weight = s.weight_is_computed
                           ? b.Input("weight", DType::kF32, {s.out, s.in}, Rate::kStep)
                           : b.Weight("net/weight", {s.out, s.in});
  b.Output("y", b.Linear(x, weight, b.Weight("net/bias", {s.out})));
  return std::make_shared<const graph::Graph>(std::move(b).Build().value());
}

GraphPointer Product(int64_t batch, const Sizes& s) {
  GraphBuilder b;
  const Value left = b.Input("left", DType::kF32, {batch, s.rows, s.in}, Rate::kStep);
  const Value right = b.Input("right", DType::kF32, {batch, s.in, s.out}, Rate::kStep);
  b.Output("y", b.Matmul(left, right));
  return std::make_shared<const graph::Graph>(std::move(b).Build().value());
}

// The plan of one instruction with another algorithm; nothing where it has none such.
std::optional<Plan> PlanWith(const graph::Graph& graph, Algorithm algorithm) {
  const Machine machine = {&KernelsOfThisMachine(), 2};
  const ThreadCount threads(machine.threads);  // oneDNN's workspace depends on it
  CpuPlan plan;
  plan.algorithms = {algorithm};
  bool has_it = false;
  const auto choose = [&](const Program& program) {
    EXPECT_EQ(program.instructions.size(), 1u);
    const std::vector<Algorithm> algorithms = AlgorithmsFor(program, program.instructions[0]);
    has_it = std::find(algorithms.begin(), algorithms.end(), algorithm) != algorithms.end();
    return has_it ? plan.algorithms : algorithms;
  };
  const BoundProgram bound = Bind(graph, graph::ExtractRecipes(graph), choose, machine).value();
  if (!has_it) return std::nullopt;
  plan.memory = graph::PlanMemory(bound.values.values).value();
  return WithNeeds(plan, graph, bound);
}

void ExpectWhatTheReferenceComputes(const GraphPointer& graph, Algorithm algorithm) {
  const std::optional<Plan> plan = PlanWith(*graph, algorithm);
  if (!plan) return;
  const testing::Leaves leaves = testing::RandomLeaves(*graph, /*seed=*/9);
  ASSERT_OK_AND_ASSIGN(const auto backend, CpuBackend::Create({.threads = 2}));
  weights::WeightStore store(*backend);
  weights::WeightSet set(&store);
  set.Add("net", leaves.weights);
  ASSERT_OK_AND_ASSIGN(const auto executable, backend->Load(graph, *plan, set));
  ASSERT_OK_AND_ASSIGN(const auto made, testing::RunExecutable(*executable, leaves.inputs));
  reference::ReferenceBackend reference;
  weights::WeightStore plain(reference);
  weights::WeightSet plain_set(&plain);
  plain_set.Add("net", leaves.weights);
  ASSERT_OK_AND_ASSIGN(const auto right,
                       testing::RunGraph(reference, graph, plain_set, leaves.inputs));
  const std::vector<double> values = testing::ToDoubles(made[0]),
                            wanted = testing::ToDoubles(right[0]);
  double largest = 0;
  for (const double value : wanted) largest = std::max(largest, std::abs(value));
  for (size_t i = 0; i < wanted.size(); ++i) ASSERT_NEAR(values[i], wanted[i], 1e-5 * largest);
}

TEST(ProductAlgorithmsTest, ComputeTheSame) {
  for (const Algorithm algorithm : {Algorithm::kDirect, Algorithm::kAsConvolution}) {
    for (const int64_t batch : {1, 3}) {
      for (const auto& [m, k, n] :
           {std::array{1, 1, 1}, {7, 1, 37}, {600, 32, 128}, {37, 19, 5}, {64, 320, 256}}) {
        SCOPED_TRACE(absl::StrCat("algorithm ", static_cast<int>(algorithm), ": ", batch, " of ", m,
                                  "x", k, " by ", n));
        ExpectWhatTheReferenceComputes(Product(batch, {m, k, n, true}), algorithm);
      }
    }
  }
}

TEST(LinearAlgorithmsTest, ComputeTheSame) {
  for (const Algorithm algorithm : {Algorithm::kDirect, Algorithm::kAsConvolution}) {
    for (const int64_t rows : {1, 2, 7, 154, 600}) {
      for (const auto& [in, out] : {std::pair{1, 1}, {19, 37}, {64, 256}, {320, 128}}) {
        for (const bool computed : {false, true}) {
          SCOPED_TRACE(absl::StrCat("algorithm ", static_cast<int>(algorithm), ": ", rows, "x", in,
                                    " to ", out, computed ? ", of a computed weight" : ""));
          ExpectWhatTheReferenceComputes(Linear({rows, in, out, computed}), algorithm);
        }
      }
    }
  }
}

}  // namespace
}  // namespace latentd::backends::cpu
