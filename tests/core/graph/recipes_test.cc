#include "core/graph/recipes.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "core/graph/graph_builder.h"
#include "core/graph/text.h"
#include "core/graph/verifier.h"
#include "tests/support/status_matchers.h"
#include "tests/support/stored_weight.h"

namespace latentd::graph {
namespace {

TEST(ExtractRecipes, CutsOneGraphForEachResultThatSomethingFasterReads) {
  GraphBuilder b;
  const auto half = [&b](const char* name, Shape shape) {
    return testing::CastWeight(b, name, DType::kF16, std::move(shape));
  };
  const Value x = b.Input("x", DType::kF32, {1, 4}, Rate::kStep);
  const Value merged = b.Concat({half("q", {4, 4}), half("k", {4, 4})}, 0);
  b.Output("y", b.Linear(x, merged, half("bias", {8})));
  ASSERT_OK_AND_ASSIGN(const Graph graph, std::move(b).Build());

  const std::vector<Recipe> recipes = ExtractRecipes(graph);
  ASSERT_EQ(recipes.size(), 2u);
  EXPECT_EQ(recipes[0].value, merged.id);
  EXPECT_EQ(ToText(recipes[0].graph), R"(latentd graph 1
%0 = weight "q" : f16[4,4]
%1 = cast(%0) to=f32 : f32[4,4]
%2 = weight "k" : f16[4,4]
%3 = cast(%2) to=f32 : f32[4,4]
%4 = concat(%1, %3) axis=0 : f32[8,4]
output "result" = %4
)");
  EXPECT_EQ(ToText(recipes[1].graph), R"(latentd graph 1
%0 = weight "bias" : f16[8]
%1 = cast(%0) to=f32 : f32[8]
output "result" = %1
)");
  for (const Recipe& recipe : recipes) EXPECT_OK(Verify(recipe.graph));
}

TEST(ExtractRecipes, IncludesAPlainWeightAndAnOutput) {
  GraphBuilder b;
  const Value x = b.Input("x", DType::kF32, {4}, Rate::kRequest);
  const Value w = b.Weight("w", {4});
  b.Output("y", b.Add(x, w));
  b.Output("z", b.Silu(w));
  ASSERT_OK_AND_ASSIGN(const Graph graph, std::move(b).Build());
  const std::vector<Recipe> recipes = ExtractRecipes(graph);
  ASSERT_EQ(recipes.size(), 2u);
  EXPECT_EQ(recipes[0].graph.size(), 1);
  EXPECT_EQ(recipes[1].graph.size(), 2);
}

TEST(ExtractRecipes, LeavesOutWhatOnlyRecipesRead) {
  GraphBuilder b;
  const Value x = b.Input("x", DType::kF32, {4}, Rate::kStep);
  b.Output("y", b.Add(x, b.Silu(b.Weight("w", {4}))));
  ASSERT_OK_AND_ASSIGN(const Graph graph, std::move(b).Build());
  EXPECT_EQ(ExtractRecipes(graph).size(), 1u);
}

}  // namespace
}  // namespace latentd::graph
