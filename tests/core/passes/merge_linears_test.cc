#include "core/passes/merge_linears.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "core/graph/graph_builder.h"
#include "core/graph/recipes.h"
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

TEST(MergeLinears, MakesOneProductOfQueryKeyAndValue) {
  GraphBuilder b;
  const Value x = b.Input("x", DType::kF32, {1, 5, 8}, Rate::kStep);
  const Value query = b.Linear(x, b.Weight("q", {8, 8}));
  const Value key = b.Linear(x, b.Weight("k", {8, 8}));
  const Value value = b.Linear(x, b.Weight("v", {8, 8}));
  b.Output("y", b.Attention(query, key, value, {}));
  ASSERT_OK_AND_ASSIGN(const graph::Graph graph, std::move(b).Build());
  ASSERT_OK_AND_ASSIGN(const graph::Graph result, MergeLinears(graph, EagerTarget()));
  EXPECT_OK(Verify(result));
  ASSERT_EQ(Count(result, Op::kLinear), 1);
  EXPECT_EQ(result.node(result.Select(Op::kLinear)[0]).shape, (graph::Shape{1, 5, 24}));
  EXPECT_EQ(Count(result, Op::kSlice), 3);
  const std::vector<graph::Recipe> recipes = ExtractRecipes(result);
  ASSERT_EQ(recipes.size(), 1u);
  EXPECT_EQ(Count(recipes[0].graph, Op::kWeight), 3);
}

TEST(MergeLinears, MergesOnlyOneOperandAndOnlyAllOrNoneWithABias) {
  GraphBuilder b;
  const Value x = b.Input("x", DType::kF32, {5, 8}, Rate::kStep);
  const Value z = b.Input("z", DType::kF32, {5, 8}, Rate::kStep);
  b.Output("a", b.Linear(x, b.Weight("a", {8, 8})));
  b.Output("b", b.Linear(x, b.Weight("b", {8, 8}), b.Weight("bias", {8})));
  b.Output("c", b.Linear(z, b.Weight("c", {8, 8})));
  b.Output("d", b.Linear(x, z));
  ASSERT_OK_AND_ASSIGN(const graph::Graph graph, std::move(b).Build());
  ASSERT_OK_AND_ASSIGN(const graph::Graph result, MergeLinears(graph, EagerTarget()));
  EXPECT_EQ(Count(result, Op::kLinear), 4);
}

TEST(MergeLinears, JoinsTheBiasesToo) {
  GraphBuilder b;
  const Value x = b.Input("x", DType::kF32, {5, 8}, Rate::kStep);
  b.Output("a", b.Linear(x, b.Weight("a", {8, 8}), b.Weight("a_bias", {8})));
  b.Output("b", b.Linear(x, b.Weight("b", {4, 8}), b.Weight("b_bias", {4})));
  ASSERT_OK_AND_ASSIGN(const graph::Graph graph, std::move(b).Build());
  ASSERT_OK_AND_ASSIGN(const graph::Graph result, MergeLinears(graph, EagerTarget()));
  EXPECT_OK(Verify(result));
  EXPECT_EQ(Count(result, Op::kLinear), 1);
  EXPECT_EQ(Count(result, Op::kConcat), 2);
  EXPECT_EQ(result.node(result.outputs()[1].value).shape, (graph::Shape{5, 4}));
}

TEST(MergeLinears, MakesSeveralOfVeryMany) {
  GraphBuilder b;
  const Value x = b.Input("x", DType::kF32, {1, 4096}, Rate::kStep);
  for (const char* name : {"a", "b", "c", "d", "e"}) {
    b.Output(name, b.Linear(x, b.Weight(name, {8192, 4096})));
  }
  ASSERT_OK_AND_ASSIGN(const graph::Graph graph, std::move(b).Build());
  ASSERT_OK_AND_ASSIGN(const graph::Graph result, MergeLinears(graph, EagerTarget()));
  EXPECT_OK(Verify(result));
  std::vector<int64_t> widths;
  for (graph::ValueId id : result.Select(Op::kLinear)) widths.push_back(result.node(id).shape[1]);
  EXPECT_THAT(widths, ::testing::UnorderedElementsAre(16384, 16384, 8192));
  ASSERT_OK_AND_ASSIGN(const graph::Graph again, MergeLinears(result, EagerTarget()));
  EXPECT_EQ(Count(again, Op::kLinear), 3);
}

TEST(MergeLinears, DoesNothingWhereTheTargetDoesNotWantIt) {
  const graph::Graph graph = SmallUnet();
  ASSERT_OK_AND_ASSIGN(const graph::Graph result, MergeLinears(graph, {}));
  EXPECT_EQ(result.size(), graph.size());
}

}  // namespace
}  // namespace latentd::passes
