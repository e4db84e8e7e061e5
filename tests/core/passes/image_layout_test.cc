#include "core/passes/image_layout.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "core/graph/graph_builder.h"
#include "core/graph/text.h"
#include "core/graph/verifier.h"
#include "core/passes/simplify_movement.h"
#include "tests/core/passes/networks.h"
#include "tests/support/status_matchers.h"

namespace latentd::passes {
namespace {

using graph::DType;
using graph::Graph;
using graph::GraphBuilder;
using graph::Op;
using graph::Rate;
using graph::Value;

Graph InNhwc(GraphBuilder b) {
  const Graph graph = *std::move(b).Build();
  const Graph result = *SimplifyMovement(*ChooseImageLayout(graph, EagerTarget()), {});
  EXPECT_OK(Verify(result));
  EXPECT_EQ(result.outputs().size(), graph.outputs().size());
  for (size_t i = 0; i < graph.outputs().size(); ++i) {
    EXPECT_EQ(result.node(result.outputs()[i].value).shape,
              graph.node(graph.outputs()[i].value).shape);
  }
  return result;
}

TEST(ChooseImageLayout, PermutesOnceAtEachEndOfAChain) {
  GraphBuilder b;
  Value x = b.Input("x", DType::kF32, {2, 4, 6, 5}, Rate::kStep);
  x = b.Conv2d(x, b.Weight("a", {8, 4, 3, 3}), graph::kNone, {.padding = {1, 1, 1, 1}});
  x = b.Silu(b.GroupNorm(x, b.Weight("g", {8}), b.Weight("b", {8}), {.groups = 2}));
  x = b.UpsampleNearest(x, 12, 10);
  x = b.Slice(b.Concat({x, b.Gelu(x)}, 1), 1, 4, 12);
  b.Output("y", b.Conv2d(x, b.Weight("c", {3, 8, 1, 1}), graph::kNone, {}));
  const Graph result = InNhwc(std::move(b));
  EXPECT_EQ(Count(result, Op::kPermute), 2);
  const auto shape_of = [&](Op op) { return result.node(result.Select(op)[0]).shape; };
  EXPECT_EQ(shape_of(Op::kConv2d), (graph::Shape{2, 6, 5, 8}));
  EXPECT_EQ(shape_of(Op::kUpsampleNearest), (graph::Shape{2, 12, 10, 8}));
  EXPECT_EQ(shape_of(Op::kConcat), (graph::Shape{2, 12, 10, 16}));
  EXPECT_EQ(shape_of(Op::kSlice), (graph::Shape{2, 12, 10, 8}));
}

TEST(ChooseImageLayout, PixelsLeaveAndEnterWithoutBeingMoved) {
  GraphBuilder b;
  const Value pixels = b.Input("pixels", DType::kU8, {1, 6, 5, 3}, Rate::kStep);
  Value x = b.Permute(b.Cast(pixels, DType::kF32), {0, 3, 1, 2});
  x = b.Conv2d(x, b.Weight("a", {3, 3, 1, 1}), graph::kNone, {});
  b.Output("finite", b.IsFinite(x));
  b.Output("image", b.Permute(b.ToPixels(b.Exp(b.Clamp(x, -1, 1))), {0, 2, 3, 1}));
  b.Output("the_same", b.ToPixels(b.Permute(x, {0, 2, 3, 1})));
  EXPECT_EQ(Count(InNhwc(std::move(b)), Op::kPermute), 0);
}

TEST(ChooseImageLayout, TokensOfAnImageAreAReshape) {
  GraphBuilder b;
  const Value x = b.Input("x", DType::kF32, {2, 8, 6, 5}, Rate::kStep);
  const Value image = b.Conv2d(x, b.Weight("a", {8, 8, 1, 1}), graph::kNone, {});
  const Value tokens = b.Reshape(b.Permute(image, {0, 2, 3, 1}), {2, 30, 8});
  const Value back = b.Permute(b.Reshape(b.Softmax(tokens), {2, 6, 5, 8}), {0, 3, 1, 2});
  const Value sum = b.Add(image, back);
  b.Output("y", b.Conv2d(sum, b.Weight("b", {8, 8, 1, 1}), graph::kNone, {}));
  const Graph result = InNhwc(std::move(b));
  EXPECT_EQ(Count(result, Op::kPermute), 2);  // at the input and at the output
  EXPECT_EQ(Count(result, Op::kReshape), 2);
}

TEST(ChooseImageLayout, MovesBroadcastOperandsWithoutPermuting) {
  GraphBuilder b;
  const Value x = b.Input("x", DType::kF32, {2, 8, 6, 5}, Rate::kStep);
  const Value shift = b.Input("shift", DType::kF32, {2, 8}, Rate::kStep);
  Value y = b.Conv2d(x, b.Weight("a", {8, 8, 1, 1}), graph::kNone, {});
  y = b.Add(y, b.Reshape(shift, {2, 8, 1, 1}));
  y = b.Mul(b.Mul(y, b.Scalar(2)), b.Weight("channels", {8, 1, 1}));
  y = b.Mul(y, b.Input("rows", DType::kF32, {2, 1, 1, 1}, Rate::kStep));
  b.Output("y", y);
  const Graph result = InNhwc(std::move(b));
  EXPECT_EQ(Count(result, Op::kPermute), 2);
  const graph::Node& add = result.node(result.Select(Op::kAdd)[0]);
  EXPECT_EQ(add.shape, (graph::Shape{2, 6, 5, 8}));
  EXPECT_EQ(result.node(add.operands[1]).shape, (graph::Shape{2, 1, 1, 8}));
}

TEST(ChooseImageLayout, LeavesWhatIsNoImageAlone) {
  GraphBuilder b;
  const Value x = b.Input("x", DType::kF32, {2, 3, 4, 5}, Rate::kStep);
  b.Output("y", b.Softmax(b.Add(x, x)));
  const Graph graph = *std::move(b).Build();
  ASSERT_OK_AND_ASSIGN(const Graph result, ChooseImageLayout(graph, EagerTarget()));
  EXPECT_EQ(ToText(result), ToText(graph));
}

TEST(ChooseImageLayout, GivesTheGraphBackToATargetThatLikesNchw) {
  const Graph graph = SmallUnet();
  ASSERT_OK_AND_ASSIGN(const Graph result,
                       ChooseImageLayout(graph, EagerTarget(graph::Layout::kNchw)));
  EXPECT_EQ(ToText(result), ToText(graph));
}

TEST(ChooseImageLayout, ANetworkPermutesOnlyAtItsEnds) {
  ASSERT_OK_AND_ASSIGN(const Graph result, ChooseImageLayout(SmallUnet(), EagerTarget()));
  ASSERT_OK_AND_ASSIGN(const Graph simple, SimplifyMovement(result, EagerTarget()));
  EXPECT_OK(Verify(simple));
  // The sample on its way in, the result before guidance, and the second output.
  EXPECT_EQ(Count(simple, Op::kPermute), 3);
}

}  // namespace
}  // namespace latentd::passes
