#include "core/passes/pipeline.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "core/graph/text.h"
#include "core/graph/verifier.h"
#include "tests/core/passes/equivalence.h"
#include "tests/core/passes/networks.h"
#include "tests/support/fake_clock.h"
#include "tests/support/status_matchers.h"

namespace latentd::passes {
namespace {

using device::Buffer;
using graph::Graph;
using graph::Op;
using ::testing::HasSubstr;
using testing::StatusIs;

TEST(RunPasses, KeepsTheNumbersForEveryTarget) {
  const Graph graph = SmallUnet();
  Runs run(graph);
  const std::vector<Buffer> expected = run(graph);
  for (const graph::Target& target :
       {graph::Target{}, EagerTarget(graph::Layout::kNchw), EagerTarget(graph::Layout::kNhwc)}) {
    ASSERT_OK_AND_ASSIGN(const Graph optimised, RunPasses(graph, target));
    EXPECT_LE(Distance(expected, run(optimised)), 1e-5) << target.name;
  }
}

TEST(RunPasses, KeepsTheNumbersWithAnyOnePassAlone) {
  const Graph graph = SmallUnet();
  Runs run(graph);
  const std::vector<Buffer> expected = run(graph);
  for (const Pass& pass : Passes()) {
    ASSERT_OK_AND_ASSIGN(const Graph result, pass.run(graph, EagerTarget(), {}));
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
      StatusIs(absl::StatusCode::kInvalidArgument, HasSubstr("there are: constant_folding")));
}

TEST(RunPasses, RefusesAnInvalidGraph) {
  const Graph invalid({{.op = Op::kSilu, .operands = {5}}}, {{"y", 0}});
  EXPECT_THAT(RunPasses(invalid, {}),
              StatusIs(absl::StatusCode::kInvalidArgument, HasSubstr("node 0")));
}

}  // namespace
}  // namespace latentd::passes
