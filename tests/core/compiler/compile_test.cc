#include "core/compiler/compile.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "core/graph/graph_builder.h"
#include "core/graph/text.h"
#include "tests/core/compiler/fake_backend.h"
#include "tests/support/fake_clock.h"
#include "tests/support/status_matchers.h"

namespace latentd::compiler {
namespace {

using ::testing::HasSubstr;
using testing::StatusIs;

class Compiling : public ::testing::Test {
 protected:
  absl::StatusOr<ArtifactPointer> Compiled(const graph::Graph& graph,
                                           const CompileOptions& options = {}) const {
    return Compile(KeyOf(graph, backend, options), {.component = "part"}, graph, backend, options,
                   clock);
  }

  testing::FakeClock clock;
  FakeBackend backend;
  const graph::Graph graph = SiluGraph(4);
};

TEST_F(Compiling, RunsThePassesAndPlansWhatTheyLeave) {
  graph::GraphBuilder b;
  const graph::Value x = b.Input("x", graph::DType::kF32, {4}, graph::Rate::kStep);
  b.Gelu(x);  // dead
  b.Output("y", b.Silu(x));
  ASSERT_OK_AND_ASSIGN(const graph::Graph wasteful, std::move(b).Build());
  ASSERT_OK_AND_ASSIGN(const ArtifactPointer compiled, Compiled(wasteful));
  EXPECT_EQ(ToText(*compiled->graph), ToText(graph));
  EXPECT_EQ(compiled->plan.bytes, "plan of 2");
  EXPECT_EQ(compiled->key, KeyOf(wasteful, backend, {}));
}

TEST_F(Compiling, AnArtifactHoldsAllOfIt) {
  backend.arena_bytes = 7;
  backend.executable_bytes = 8;
  backend.on_plan = [this] { clock.Advance(absl::Seconds(3)); };
  ASSERT_OK_AND_ASSIGN(const ArtifactPointer artifact, Compiled(BiasGraph(4)));
  EXPECT_EQ(artifact->label.ToText(), "part rows 1");
  EXPECT_EQ(artifact->plan.arena_bytes, 7u);
  EXPECT_EQ(artifact->plan.executable_bytes, 8u);
  ASSERT_EQ(artifact->plan.weights.size(), 1u);
  EXPECT_EQ(artifact->graph->node(artifact->plan.weights[0].recipe).op, graph::Op::kWeight);
  EXPECT_EQ(artifact->compile_time, absl::Seconds(3));
}

TEST_F(Compiling, IsDeterministic) {
  EXPECT_EQ(WriteArtifact(**Compiled(graph)), WriteArtifact(**Compiled(graph)));
}

TEST_F(Compiling, AFailedPlanGivesItsReason) {
  backend.plan_status = absl::ResourceExhaustedError("no kernel fits into the arena");
  EXPECT_THAT(Compiled(graph),
              StatusIs(absl::StatusCode::kResourceExhausted, HasSubstr("no kernel fits")));
}

TEST_F(Compiling, AnUnknownPassIsRefused) {
  const auto is_named = StatusIs(absl::StatusCode::kInvalidArgument, HasSubstr("\"magic\""));
  EXPECT_THAT(Compiled(graph, {{"magic"}}), is_named);
  EXPECT_THAT(CheckOptions({{"magic"}}), is_named);
  EXPECT_OK(CheckOptions({{"epilogues"}}));
}

}  // namespace
}  // namespace latentd::compiler
