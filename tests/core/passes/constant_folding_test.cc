#include "core/passes/constant_folding.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "core/backends/reference/evaluate.h"
#include "core/graph/graph_builder.h"
#include "core/graph/verifier.h"
#include "tests/core/passes/networks.h"
#include "tests/support/status_matchers.h"

namespace latentd::passes {
namespace {

using backends::reference::EvaluateRecipe;
using graph::DType;
using graph::GraphBuilder;
using graph::Op;
using graph::Rate;
using graph::Value;
using ::testing::ElementsAre;

graph::Graph Folded(GraphBuilder b) {
  const graph::Graph result = *FoldConstants(*std::move(b).Build(), EvaluateRecipe);
  EXPECT_OK(Verify(result));
  return result;
}

TEST(FoldConstants, MakesALiteralOfWhatLiteralsGive) {
  GraphBuilder b;
  const Value x = b.Input("x", DType::kF32, {2}, Rate::kStep);
  const Value half = b.Div(b.Scalar(1), b.Scalar(2));
  b.Output("y", b.Mul(x, b.Sub(b.Constant({1, 3}, {2}), half)));
  const graph::Graph result = Folded(std::move(b));
  const graph::Node& product = result.node(result.outputs()[0].value);
  ASSERT_EQ(product.op, Op::kMul);
  const graph::Node& literal = result.node(product.operands[1]);
  ASSERT_EQ(literal.op, Op::kConstant);
  EXPECT_THAT(std::get<graph::ConstantAttributes>(literal.attributes).values,
              ElementsAre(0.5f, 2.5f));
  EXPECT_EQ(Count(result, Op::kDiv) + Count(result, Op::kSub), 0);
}

TEST(FoldConstants, KeepsWhatReadsAnythingElse) {
  GraphBuilder b;
  const Value x = b.Input("x", DType::kF32, {2}, Rate::kStep);
  b.Output("weight", b.Mul(b.Weight("w", {2}), b.Scalar(2)));
  b.Output("input", b.Mul(x, b.Scalar(2)));
  const graph::Graph result = Folded(std::move(b));
  EXPECT_EQ(Count(result, Op::kMul), 2);
}

TEST(FoldConstants, KeepsWhatIsNoNumberOrNotFloat32OrTooLarge) {
  GraphBuilder b;
  b.Output("nan", b.Div(b.Scalar(0), b.Scalar(0)));
  b.Output("f16", b.Cast(b.Scalar(1), DType::kF16));
  const Value row = b.Constant(std::vector<float>(100, 1), {100});
  const Value column = b.Constant(std::vector<float>(100, 1), {100, 1});
  b.Output("large", b.Add(row, column));
  const graph::Graph result = Folded(std::move(b));
  EXPECT_EQ(Count(result, Op::kDiv) + Count(result, Op::kCast) + Count(result, Op::kAdd), 3);
}

TEST(FoldConstants, KeepsWhatCannotBeEvaluated) {
  GraphBuilder b;
  const Value ids = b.Cast(b.Constant({7}, {1}), DType::kI64);
  b.Output("y", b.Embedding(b.Constant({1, 2}, {2, 1}), ids));
  b.Output("z", b.Silu(b.Scalar(1)));
  const graph::Graph graph = *std::move(b).Build();
  const auto fails = [](const graph::Graph&, absl::Span<const device::ConstBuffer>) {
    return absl::StatusOr<device::ConstBuffer>(absl::InternalError("no"));
  };
  ASSERT_OK_AND_ASSIGN(const graph::Graph kept, FoldConstants(graph, fails));
  EXPECT_EQ(Count(kept, Op::kSilu), 1);
  ASSERT_OK_AND_ASSIGN(const graph::Graph folded, FoldConstants(graph, EvaluateRecipe));
  EXPECT_EQ(Count(folded, Op::kEmbedding), 1);
  EXPECT_EQ(Count(folded, Op::kSilu), 0);
}

TEST(FoldConstants, DoesNothingWithoutAnEvaluator) {
  GraphBuilder b;
  b.Output("y", b.Silu(b.Scalar(1)));
  ASSERT_OK_AND_ASSIGN(const graph::Graph result, FoldConstants(*std::move(b).Build(), nullptr));
  EXPECT_EQ(Count(result, Op::kSilu), 1);
}

}  // namespace
}  // namespace latentd::passes
