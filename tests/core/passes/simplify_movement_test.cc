#include "core/passes/simplify_movement.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "core/graph/graph_builder.h"
#include "core/graph/verifier.h"
#include "core/passes/dead_code.h"
#include "tests/core/passes/networks.h"
#include "tests/support/status_matchers.h"

namespace latentd::passes {
namespace {

using graph::DType;
using graph::GraphBuilder;
using graph::Op;
using graph::Rate;
using graph::Value;

graph::Graph Simplified(GraphBuilder b) {
  const graph::Graph graph = *std::move(b).Build();
  const graph::Graph result = *RemoveDeadCode(*SimplifyMovement(graph, {}), {});
  EXPECT_OK(Verify(result));
  return result;
}

TEST(SimplifyMovement, RemovesWhatMovesNothing) {
  GraphBuilder b;
  const Value x = b.Input("x", DType::kF32, {2, 3}, Rate::kStep);
  Value y = b.Cast(b.Reshape(x, {2, 3}), DType::kF32);
  y = b.Concat({b.Slice(b.Permute(y, {0, 1}), 1, 0, 3)}, 1);
  b.Output("y", b.Silu(y));
  EXPECT_EQ(Simplified(std::move(b)).size(), 2);
}

TEST(SimplifyMovement, MakesOneReshapeOfAChain) {
  GraphBuilder b;
  const Value x = b.Input("x", DType::kF32, {2, 6}, Rate::kStep);
  b.Output("y", b.Reshape(b.Reshape(x, {12}), {3, 4}));
  b.Output("back", b.Reshape(b.Reshape(x, {3, 4}), {2, 6}));
  const graph::Graph result = Simplified(std::move(b));
  EXPECT_EQ(Count(result, Op::kReshape), 1);
  EXPECT_EQ(result.outputs()[1].value, 0);
}

TEST(SimplifyMovement, MakesOnePermuteOfTwo) {
  GraphBuilder b;
  const Value x = b.Input("x", DType::kF32, {2, 3, 4, 5}, Rate::kStep);
  b.Output("y", b.Permute(b.Permute(x, {0, 2, 3, 1}), {3, 0, 1, 2}));
  b.Output("back", b.Permute(b.Permute(x, {0, 2, 3, 1}), {0, 3, 1, 2}));
  const graph::Graph result = Simplified(std::move(b));
  ASSERT_EQ(Count(result, Op::kPermute), 1);
  EXPECT_EQ(result.node(1).shape, (graph::Shape{3, 2, 4, 5}));
  EXPECT_EQ(result.outputs()[1].value, 0);
}

TEST(SimplifyMovement, KeepsACastThatLosesBits) {
  GraphBuilder b;
  const Value x = b.Input("x", DType::kF32, {2}, Rate::kStep);
  b.Output("y", b.Cast(b.Cast(x, DType::kBF16), DType::kF32));
  EXPECT_EQ(Simplified(std::move(b)).size(), 3);
}

}  // namespace
}  // namespace latentd::passes
