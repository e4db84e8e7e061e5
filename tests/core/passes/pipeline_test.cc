#include "core/passes/pipeline.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <cmath>

#include "core/backends/reference/evaluate.h"
#include "core/backends/reference/reference_backend.h"
#include "core/graph/text.h"
#include "core/graph/verifier.h"
#include "core/weights/weight_store.h"
#include "tests/conformance/run_graph.h"
#include "tests/core/passes/networks.h"
#include "tests/support/fake_clock.h"
#include "tests/support/status_matchers.h"

namespace latentd::passes {
namespace {

using device::Buffer;
using graph::DType;
using graph::Graph;
using graph::GraphBuilder;
using graph::Op;
using ::testing::HasSubstr;
using testing::StatusIs;

// The largest difference of two runs' outputs, relative to the largest value of each output.
double Distance(const std::vector<Buffer>& a, const std::vector<Buffer>& b) {
  double distance = 0;
  for (size_t i = 0; i < a.size(); ++i) {
    const std::vector<double> x = testing::ToDoubles(a[i]), y = testing::ToDoubles(b[i]);
    double largest = 0, difference = 0;
    for (size_t j = 0; j < x.size(); ++j) {
      largest = std::max(largest, std::abs(x[j]));
      difference = std::max(difference, std::abs(x[j] - y[j]));
    }
    EXPECT_GT(largest, 1e-3);  // a graph of zeros would show nothing
    distance = std::max(distance, difference / largest);
  }
  return distance;
}

// Runs graphs on one set of random weights and inputs, on the reference backend.
class Runs {
 public:
  explicit Runs(const Graph& graph)
      : leaves_(testing::RandomLeaves(graph, 11)),
        store_(backends::reference::EvaluateRecipe),
        set_(&store_) {
    set_.Add("net", leaves_.weights);
  }

  std::vector<Buffer> operator()(const Graph& graph) {
    auto outputs =
        testing::RunGraph(backend_, std::make_shared<const Graph>(graph), set_, leaves_.inputs);
    EXPECT_OK(outputs);
    return outputs.ok() ? *std::move(outputs) : std::vector<Buffer>();
  }

 private:
  testing::Leaves leaves_;
  weights::WeightStore store_;
  weights::WeightSet set_;
  backends::reference::ReferenceBackend backend_;
};

DType HalfOfThem(const std::string& name) {
  return name.size() % 2 == 0 ? DType::kF16 : DType::kF32;
}

TEST(RunPasses, KeepsTheNumbersForEveryTarget) {
  for (const GraphBuilder::StoredDType& stored : {GraphBuilder::StoredDType(), {HalfOfThem}}) {
    const Graph graph = SmallUnet(stored);
    Runs run(graph);
    const std::vector<Buffer> expected = run(graph);
    for (const graph::Target& target :
         {graph::Target{}, EagerTarget(graph::Layout::kNchw), EagerTarget(graph::Layout::kNhwc)}) {
      ASSERT_OK_AND_ASSIGN(const Graph optimised, RunPasses(graph, target));
      EXPECT_LE(Distance(expected, run(optimised)), 1e-5) << target.name;
    }
  }
}

TEST(RunPasses, KeepsTheNumbersWithAnyOnePassAlone) {
  const Graph graph = SmallUnet();
  Runs run(graph);
  const std::vector<Buffer> expected = run(graph);
  for (const Pass& pass : Passes()) {
    ASSERT_OK_AND_ASSIGN(const Graph result, pass.run(graph, EagerTarget()));
    EXPECT_OK(Verify(result));
    EXPECT_LE(Distance(expected, run(result)), 1e-5) << pass.name;
  }
}

TEST(RunPasses, OptimisesASmallUnet) {
  ASSERT_OK_AND_ASSIGN(const Graph result, RunPasses(SmallUnet(), EagerTarget()));
  EXPECT_EQ(Count(result, Op::kPermute), 3);
  EXPECT_EQ(Count(result, Op::kGeglu), 0);
  EXPECT_EQ(Count(result, Op::kGroupNorm), 0);
  EXPECT_EQ(Count(result, Op::kAdd), 0);  // all in bodies
  int slow = 0;
  for (const graph::Node& node : result.nodes()) slow += node.rate == graph::Rate::kStep;
  EXPECT_LE(slow, 64);
}

TEST(RunPasses, IsDeterministic) {
  ASSERT_OK_AND_ASSIGN(const Graph a, RunPasses(SmallUnet(), EagerTarget()));
  ASSERT_OK_AND_ASSIGN(const Graph b, RunPasses(SmallUnet(), EagerTarget()));
  EXPECT_EQ(ToText(a), ToText(b));
}

TEST(RunPasses, ChangesNothingTheSecondTime) {
  ASSERT_OK_AND_ASSIGN(const Graph once, RunPasses(SmallUnet(), EagerTarget()));
  ASSERT_OK_AND_ASSIGN(const Graph twice, RunPasses(once, EagerTarget()));
  EXPECT_EQ(ToText(once), ToText(twice));
}

TEST(RunPasses, SkipsByNameAndReportsWhatRan) {
  std::vector<PassTiming> timings;
  ASSERT_OK_AND_ASSIGN(const Graph result,
                       RunPasses(SmallUnet(), EagerTarget(), {.skip = {"linear_geglu"}}, &timings,
                                 testing::FakeClock()));
  EXPECT_EQ(Count(result, Op::kGeglu), 1);
  EXPECT_EQ(timings.size(), Passes().size() - 1);
  for (const PassTiming& timing : timings) EXPECT_NE(timing.name, "linear_geglu");
  EXPECT_EQ(timings.back().nodes, result.size());
}

TEST(RunPasses, RefusesToSkipWhatDoesNotExist) {
  EXPECT_THAT(
      RunPasses(SmallUnet(), {}, {.skip = {"linear_gelgu"}}),
      StatusIs(absl::StatusCode::kInvalidArgument, HasSubstr("there are: simplify_movement")));
}

TEST(RunPasses, RefusesAnInvalidGraph) {
  const Graph invalid({{.op = Op::kSilu, .operands = {5}}}, {{"y", 0}});
  EXPECT_THAT(RunPasses(invalid, {}),
              StatusIs(absl::StatusCode::kInvalidArgument, HasSubstr("node 0")));
}

}  // namespace
}  // namespace latentd::passes
