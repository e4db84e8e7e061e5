#include "core/graph/cut.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <string>
#include <vector>

#include "core/graph/graph_builder.h"
#include "core/graph/verifier.h"
#include "tests/support/status_matchers.h"

namespace latentd::graph {
namespace {

using ::testing::ElementsAre;
using ::testing::HasSubstr;
using ::testing::IsEmpty;
using testing::StatusIs;

// The deep part reads "below" and a weight of its own; the part behind reads "beside" too.
Graph Whole() {
  GraphBuilder b;
  const Value x = b.Input("x", DType::kF32, {2, 8}, Rate::kStep);
  const Value below = b.Input("below", DType::kF32, {2, 8}, Rate::kStep);
  const Value beside = b.Input("beside", DType::kF32, {2, 8}, Rate::kRequest);
  const Value shared = b.Silu(x);
  const Value deep = b.Cast(b.Linear(b.Add(shared, below), b.Weight("low", {6, 8})), DType::kBF16);
  b.Output("deep", deep);
  const Value read = b.Linear(b.Cast(deep, DType::kF32), b.Weight("high", {8, 6}));
  b.Output("y", b.Add(b.Add(read, shared), beside));
  b.Output("twice", b.Add(x, x));
  return std::move(b).Build().value();
}

std::vector<std::string> NamesOf(const Graph& graph, Op op) {
  std::vector<std::string> names;
  for (ValueId id : graph.Select(op)) names.push_back(graph.node(id).name);
  return names;
}

TEST(CutTest, WhatIsBehindReadsTheValueAndNothingThatOnlyItNeeds) {
  ASSERT_OK_AND_ASSIGN(const Graph behind, CutAt(Whole(), "deep"));
  EXPECT_OK(Verify(behind));
  EXPECT_THAT(NamesOf(behind, Op::kInput), ElementsAre("x", "beside", "deep"));
  EXPECT_THAT(NamesOf(behind, Op::kWeight), ElementsAre("high"));
  ASSERT_EQ(behind.outputs().size(), 2u);
  EXPECT_EQ(behind.outputs()[0].name, "y");
  EXPECT_EQ(behind.outputs()[1].name, "twice");
  for (ValueId id : behind.Select(Op::kInput)) {
    const Node& input = behind.node(id);
    if (input.name != "deep") continue;
    EXPECT_EQ(input.dtype, DType::kBF16);
    EXPECT_EQ(input.shape, Shape({2, 6}));
    EXPECT_EQ(input.rate, Rate::kStep);
  }
  // Both read x's one Silu.
  EXPECT_EQ(behind.Select(Op::kSilu).size(), 1u);
}

TEST(CutTest, AnotherOutputOfTheSameValueStays) {
  GraphBuilder b;
  const Value x = b.Input("x", DType::kF32, {2, 8}, Rate::kStep);
  const Value deep = b.Silu(x);
  b.Output("deep", deep);
  b.Output("same", deep);
  b.Output("y", b.Add(deep, x));
  ASSERT_OK_AND_ASSIGN(const Graph behind, CutAt(std::move(b).Build().value(), "deep"));
  EXPECT_OK(Verify(behind));
  EXPECT_THAT(NamesOf(behind, Op::kInput), ElementsAre("x", "deep"));
  EXPECT_THAT(behind.Select(Op::kSilu), IsEmpty());
  ASSERT_EQ(behind.outputs().size(), 2u);
  EXPECT_EQ(behind.outputs()[0].name, "same");
  EXPECT_EQ(behind.node(behind.outputs()[0].value).name, "deep");
  EXPECT_EQ(behind.outputs()[1].name, "y");
}

TEST(CutTest, AnOutputThatIsNotThereOrIsReadIsRefused) {
  EXPECT_THAT(CutAt(Whole(), "depth"),
              StatusIs(absl::StatusCode::kInvalidArgument, HasSubstr("no output \"depth\"")));
  GraphBuilder b;
  const Value x = b.Input("x", DType::kF32, {2}, Rate::kStep);
  b.Output("x", b.Silu(x));
  EXPECT_THAT(CutAt(std::move(b).Build().value(), "x"),
              StatusIs(absl::StatusCode::kInvalidArgument, HasSubstr("an input \"x\" too")));
}

}  // namespace
}  // namespace latentd::graph
