#include "core/passes/common_subexpressions.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "core/graph/graph_builder.h"
#include "core/graph/verifier.h"
#include "tests/core/passes/networks.h"
#include "tests/support/status_matchers.h"

namespace latentd::passes {
namespace {

using graph::DType;
using graph::GraphBuilder;
using graph::Op;
using graph::Rate;
using graph::Value;

TEST(MergeCommonSubexpressions, MakesOneNodeOfEqualOnesAndOfWhatReadsThem) {
  GraphBuilder b;
  const Value x = b.Input("x", DType::kF32, {4}, Rate::kStep);
  b.Output("a", b.Gelu(b.Mul(x, b.Scalar(2))));
  b.Output("b", b.Gelu(b.Mul(x, b.Scalar(2))));
  ASSERT_OK_AND_ASSIGN(const graph::Graph graph, std::move(b).Build());
  ASSERT_OK_AND_ASSIGN(const graph::Graph result, MergeCommonSubexpressions(graph, {}));
  EXPECT_OK(Verify(result));
  EXPECT_EQ(result.size(), 4);
  EXPECT_EQ(result.outputs()[0].value, result.outputs()[1].value);
}

TEST(MergeCommonSubexpressions, KeepsWhatDiffersInAnything) {
  GraphBuilder b;
  const Value x = b.Input("x", DType::kF32, {4, 4}, Rate::kStep);
  const Value y = b.Input("y", DType::kF32, {4, 4}, Rate::kStep);
  b.Output("order", b.Add(b.Sub(x, y), b.Sub(y, x)));
  b.Output("op", b.Add(b.Silu(x), b.Gelu(x)));
  b.Output("attribute", b.Add(b.Slice(x, 0, 0, 1), b.Slice(x, 0, 1, 2)));
  b.Output("shape", b.Add(b.Constant({1, 2}, {2, 1}), b.Constant({1, 2}, {1, 2})));
  b.Output("zero", b.Add(b.Div(x, b.Scalar(0.0f)), b.Div(x, b.Scalar(-0.0f))));
  ASSERT_OK_AND_ASSIGN(const graph::Graph graph, std::move(b).Build());
  ASSERT_OK_AND_ASSIGN(const graph::Graph result, MergeCommonSubexpressions(graph, {}));
  EXPECT_EQ(result.size(), graph.size());
}

}  // namespace
}  // namespace latentd::passes
