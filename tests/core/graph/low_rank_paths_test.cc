#include "core/graph/low_rank_paths.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <string>
#include <vector>

#include "core/graph/graph_builder.h"
#include "core/graph/op_table.h"
#include "core/graph/text.h"
#include "core/graph/verifier.h"
#include "tests/support/status_matchers.h"

namespace latentd::graph {
namespace {

using ::testing::ElementsAre;
using ::testing::HasSubstr;
using testing::StatusIs;

constexpr int64_t kSlots = 3, kRanks = 2;

// A linear with a residual, then one without; beside them linears that can have no path.
Graph Step(int64_t rows, DType dtype = DType::kF32) {
  GraphBuilder b;
  const auto weight = [&](const char* name, const Shape& shape) {
    const Value stored = b.Weight(name, shape);
    return dtype == DType::kF32 ? stored : b.Cast(stored, dtype);
  };
  const Value x = b.Input("x", dtype, {rows, 5, 8}, Rate::kStep);
  const Value all = b.Input("all", dtype, {7, 8}, Rate::kStep);
  const Value computed = b.Input("computed", dtype, {8, 8}, Rate::kStep);
  const Value text = b.Input("text", dtype, {rows, 8}, Rate::kRequest);
  const Value sum = b.Add(x, b.Linear(x, weight("first", {8, 8}), weight("bias", {8})));
  b.Output("y", b.Silu(b.Linear(sum, weight("second", {6, 8}))));
  b.Output("of_no_row", b.Linear(all, weight("third", {8, 8})));
  b.Output("of_no_weight", b.Linear(x, computed));
  b.Output("of_request", b.Linear(text, weight("fourth", {8, 8})));
  return std::move(b).Build().value();
}

TEST(FindPathSites, TakesTheLinearsOfRows) {
  const PathSites found = FindPathSites(Step(2, DType::kBF16), 2);
  EXPECT_THAT(found.sites, ElementsAre(PathSite{"first", 8, 8}, PathSite{"second", 8, 6}));
  EXPECT_EQ(found.dtype, DType::kBF16);
  EXPECT_EQ(FindPathSites(Step(4), 4).sites, found.sites);
}

TEST(PathLayout, HasEachMatrixBehindTheOneBefore) {
  const PathLayout layout(FindPathSites(Step(2), 2).sites, kRanks);
  ASSERT_EQ(layout.places.size(), 2u);
  EXPECT_EQ(layout.places[0].down, 0);
  EXPECT_EQ(layout.places[0].up, 2 * 8);
  EXPECT_EQ(layout.places[1].down, 2 * 8 + 2 * 8);
  EXPECT_EQ(layout.places[1].up, 2 * 8 + 2 * 8 + 2 * 8);
  EXPECT_EQ(layout.slot_elements, 3 * 2 * 8 + 2 * 6);
  EXPECT_EQ(layout.places[1].scale, 2);
  EXPECT_EQ(layout.scale_elements, 4);
}

TEST(AddPaths, AddsThemBehindResiduals) {
  ASSERT_OK_AND_ASSIGN(const Graph graph, AddPaths(Step(2), 2, kSlots, kRanks));
  ASSERT_OK(Verify(graph));
  std::vector<std::string> bases;
  for (const ValueId id : graph.Select(Op::kLowRank)) {
    const Node& path = graph.node(id);
    bases.push_back(ToString(ValueType{path.dtype, path.shape}));
    EXPECT_EQ(graph.node(path.operands[4]).name, kPathSlotInput);
  }
  EXPECT_THAT(bases, ElementsAre("f32[2,5,8]", "f32[2,5,6]"));
  const std::vector<ValueId> paths = graph.Select(Op::kLowRank);
  EXPECT_EQ(graph.node(graph.node(paths[0]).operands[0]).op, Op::kAdd);
  EXPECT_EQ(graph.node(graph.node(paths[1]).operands[0]).op, Op::kLinear);
  EXPECT_EQ(graph.node(paths[1]).operands[1], paths[0]);  // the sum with its path
  EXPECT_THAT(ToText(graph), HasSubstr("input \"paths\" rate=step : f32[3,60]"));
  EXPECT_THAT(ToText(graph), HasSubstr("input \"path_scales\" rate=step : f32[2,4]"));
}

TEST(AddPaths, HaveMatricesOfTheLinearsDType) {
  ASSERT_OK_AND_ASSIGN(const Graph graph, AddPaths(Step(2, DType::kBF16), 2, kSlots, kRanks));
  ASSERT_OK(Verify(graph));
  EXPECT_THAT(ToText(graph), HasSubstr("input \"paths\" rate=step : bf16[3,60]"));
  for (const ValueId id : graph.Select(Op::kLowRank)) {
    EXPECT_EQ(graph.node(id).dtype, DType::kBF16);
  }
}

TEST(AddPaths, RefusesAGraphWithoutSites) {
  EXPECT_THAT(AddPaths(Step(2), /*rows=*/9, kSlots, kRanks),
              StatusIs(absl::StatusCode::kInvalidArgument, HasSubstr("no linear")));
}

}  // namespace
}  // namespace latentd::graph
