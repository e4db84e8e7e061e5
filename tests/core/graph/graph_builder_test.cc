#include "core/graph/graph_builder.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "core/graph/verifier.h"
#include "tests/support/status_matchers.h"

namespace latentd::graph {
namespace {

using ::testing::AllOf;
using ::testing::ElementsAre;
using ::testing::HasSubstr;
using testing::StatusIs;

TEST(GraphBuilder, InfersShapesAndRatesOfAConvolution) {
  GraphBuilder b;
  const Value x = b.Input("sample", DType::kF32, {2, 4, 32, 32}, Rate::kStep);
  const Value weight = b.Weight("unet/conv_in.weight", {64, 4, 3, 3});
  const Value bias = b.Weight("unet/conv_in.bias", {64});
  const Value y = b.Conv2d(x, weight, bias, {.padding = {1, 1, 1, 1}});
  EXPECT_EQ(b.shape(y), (Shape{2, 64, 32, 32}));
  EXPECT_EQ(b.node(y).rate, Rate::kStep);
  EXPECT_EQ(b.node(weight).rate, Rate::kCheckpoint);
  b.Output("out", b.Silu(y));
  ASSERT_OK_AND_ASSIGN(const Graph graph, std::move(b).Build());
  EXPECT_OK(Verify(graph));
  EXPECT_THAT(graph.Select(Op::kWeight), ElementsAre(1, 2));
  EXPECT_THAT(graph.UseCounts(), ElementsAre(1, 1, 1, 1, 1));
}

TEST(GraphBuilder, LeavesOutAnAbsentBias) {
  GraphBuilder b;
  const Value x = b.Input("x", DType::kF32, {2, 3}, Rate::kStep);
  const Value y = b.Linear(x, b.Weight("w", {5, 3}));
  EXPECT_EQ(b.node(y).operands.size(), 2u);
  EXPECT_EQ(b.shape(y), (Shape{2, 5}));
}

TEST(GraphBuilder, RefusesAnAbsentOperandInTheMiddle) {
  GraphBuilder b;
  const Value x = b.Input("x", DType::kF32, {2, 3}, Rate::kStep);
  b.Output("y", b.LayerNorm(x, kNone, b.Weight("beta", {3}), 1e-5f));
  EXPECT_THAT(std::move(b).Build(), StatusIs(absl::StatusCode::kInvalidArgument,
                                             HasSubstr("layer_norm: operand 1 is absent")));
}

TEST(GraphBuilder, TheFastestOperandGivesTheRate) {
  GraphBuilder b;
  const Value request = b.Input("r", DType::kF32, {1, 4}, Rate::kRequest);
  const Value step = b.Input("s", DType::kF32, {1, 4}, Rate::kStep);
  const Value folded = b.Add(b.Scalar(1), b.Weight("w", {4}));
  const Value once = b.Add(request, folded);
  EXPECT_EQ(b.node(folded).rate, Rate::kCheckpoint);
  EXPECT_EQ(b.node(once).rate, Rate::kRequest);
  EXPECT_EQ(b.node(b.Add(once, step)).rate, Rate::kStep);
}

TEST(GraphBuilder, GivesOneWeightForAName) {
  GraphBuilder b;
  const Value weight = b.Weight("w", {4});
  EXPECT_EQ(b.node(weight).op, Op::kWeight);
  EXPECT_EQ(b.node(weight).dtype, DType::kF32);
  EXPECT_EQ(b.Weight("w", {4}).id, weight.id);
}

TEST(GraphBuilder, RemembersTheFirstMistakeWithOpAndShapes) {
  GraphBuilder b;
  const Value x = b.Input("x", DType::kF32, {2, 3}, Rate::kStep);
  const Value bad = b.Linear(x, b.Weight("w", {5, 4}));
  EXPECT_EQ(b.shape(bad).rank(), 4);  // code that looks at shapes goes on
  b.Output("y", b.Reshape(bad, {-1, 0}));
  EXPECT_THAT(std::move(b).Build(), StatusIs(absl::StatusCode::kInvalidArgument,
                                             AllOf(HasSubstr("linear(f32[2,3], f32[5,4])"),
                                                   HasSubstr("weight takes 4 features, x has 3"))));
}

TEST(GraphBuilder, RefusesANameWithTwoShapes) {
  GraphBuilder b;
  b.Weight("w", {2});
  b.Output("y", b.Weight("w", {3}));
  EXPECT_THAT(std::move(b).Build(),
              StatusIs(absl::StatusCode::kInvalidArgument, HasSubstr("shapes [2] and [3]")));
}

TEST(GraphBuilder, RefusesTwoInputsOfOneName) {
  GraphBuilder b;
  b.Input("x", DType::kF32, {2}, Rate::kStep);
  b.Output("y", b.Input("x", DType::kF32, {2}, Rate::kStep));
  EXPECT_THAT(std::move(b).Build(),
              StatusIs(absl::StatusCode::kInvalidArgument, HasSubstr("\"x\" is used twice")));
}

TEST(GraphBuilder, RefusesTwoOutputsOfOneName) {
  GraphBuilder b;
  const Value x = b.Input("x", DType::kF32, {2}, Rate::kStep);
  b.Output("y", x);
  b.Output("y", x);
  EXPECT_THAT(std::move(b).Build(),
              StatusIs(absl::StatusCode::kInvalidArgument, HasSubstr("\"y\" is used twice")));
}

TEST(GraphBuilder, RefusesAGraphWithoutOutputs) {
  GraphBuilder b;
  b.Input("x", DType::kF32, {2}, Rate::kStep);
  EXPECT_THAT(std::move(b).Build(),
              StatusIs(absl::StatusCode::kInvalidArgument, HasSubstr("needs an output")));
}

TEST(GraphBuilder, RefusesAnOutputWithoutAValue) {
  GraphBuilder b;
  b.Output("y", kNone);
  EXPECT_THAT(std::move(b).Build(),
              StatusIs(absl::StatusCode::kInvalidArgument, HasSubstr("has no value")));
}

TEST(GraphBuilder, KeepsTheMistakeThatANetworkFound) {
  GraphBuilder b;
  b.Fail(absl::InvalidArgumentError("act_fn \"swoosh\" is not supported"));
  b.Output("y", b.Linear(kNone, kNone));
  EXPECT_THAT(std::move(b).Build(),
              StatusIs(absl::StatusCode::kInvalidArgument, HasSubstr("swoosh")));
}

TEST(GraphBuilder, CountsANegativeAxisFromTheEnd) {
  GraphBuilder b;
  const Value x = b.Input("x", DType::kF32, {2, 6}, Rate::kStep);
  EXPECT_EQ(b.shape(b.Concat({x, x}, -1)), (Shape{2, 12}));
  EXPECT_EQ(b.shape(b.Slice(x, -1, 2, 5)), (Shape{2, 3}));
}

TEST(GraphBuilder, AppendKeepsALeafsRateAndInfersTheRest) {
  GraphBuilder b;
  const Value x = b.Append(
      {.op = Op::kInput, .dtype = DType::kF32, .shape = {3}, .rate = Rate::kRequest, .name = "x"});
  const Value y = b.Append({.op = Op::kSilu, .operands = {x.id}, .shape = {99}});
  EXPECT_EQ(b.node(x).rate, Rate::kRequest);
  EXPECT_EQ(b.shape(y), (Shape{3}));
  EXPECT_EQ(b.node(y).rate, Rate::kRequest);
}

TEST(GraphBuilder, RefusesAnInputOfTheCheckpointRate) {
  GraphBuilder b;
  b.Output("y", b.Input("x", DType::kF32, {2}, Rate::kCheckpoint));
  EXPECT_THAT(std::move(b).Build(), StatusIs(absl::StatusCode::kInvalidArgument,
                                             HasSubstr("input \"x\": inputs are of")));
}

TEST(GraphBuilder, RefusesAConstantWhoseValuesDoNotFillItsShape) {
  GraphBuilder b;
  b.Output("y", b.Constant({1, 2, 3}, {2, 2}));
  EXPECT_THAT(std::move(b).Build(),
              StatusIs(absl::StatusCode::kInvalidArgument, HasSubstr("has 3 values")));
}

}  // namespace
}  // namespace latentd::graph
