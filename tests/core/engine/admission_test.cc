#include "core/engine/prepare/admission.h"

#include <gtest/gtest.h>

namespace latentd::engine {
namespace {

TEST(PriorityLimitsTest, WhoIsNotNamedMayDoAsEveryone) {
  const PriorityLimits limits = {.everyone = 1, .named = {{"renderer", 3}, {"batch", 0}}};
  EXPECT_EQ(limits.MaxOf("renderer"), 3);
  EXPECT_EQ(limits.MaxOf("batch"), 0);
  EXPECT_EQ(limits.MaxOf("render"), 1);
  EXPECT_EQ(limits.MaxOf(""), 1);
  EXPECT_EQ(PriorityLimits().MaxOf("renderer"), 0);
}

TEST(PriorityLimitsTest, OfSeveralNamesTheBestThatIsNamedCounts) {
  const PriorityLimits limits = {.everyone = 2, .named = {{"renderer", 1}, {"batch", 0}}};
  EXPECT_EQ(limits.MaxOf("batch,renderer"), 1);
  EXPECT_EQ(limits.MaxOf("localhost,batch"), 0);
  EXPECT_EQ(limits.MaxOf("localhost,other"), 2);
  EXPECT_EQ(limits.MaxOf("renderer%2Cbatch"), 2);
}

// Graphs of images of that size, in latents, of a model without weights.
RefusedSizes::Graphs GraphsAt(int width, int height, const std::vector<int>& rows = {2}) {
  RefusedSizes::Graphs graphs = {{{}, {.kind = pipeline::GraphKind::kRequest}}};
  for (int count : rows) graphs.push_back({{}, {.shape = {count, height, width}}});
  graphs.push_back({{}, {pipeline::GraphKind::kDecode, {1, height, width}}});
  return graphs;
}

TEST(RefusedSizesTest, FindsWhatIsNoSmaller) {
  RefusedSizes refused(/*grows=*/true);
  refused.Add(GraphsAt(64, 32), 1000);
  ASSERT_TRUE(refused.Find(GraphsAt(64, 32)).has_value());
  EXPECT_EQ(refused.Find(GraphsAt(64, 32))->bytes, 1000);
  RefusedSizes::Graphs larger = GraphsAt(64, 33);
  larger.push_back({{}, {pipeline::GraphKind::kEncode, {1, 33, 64}}});
  EXPECT_TRUE(refused.Find(larger).has_value());
  EXPECT_FALSE(refused.Find(GraphsAt(63, 128)).has_value());
  EXPECT_FALSE(refused.Find(GraphsAt(64, 32, {1})).has_value());
  RefusedSizes::Graphs latents = GraphsAt(64, 32);
  latents.pop_back();  // nothing is decoded
  EXPECT_FALSE(refused.Find(latents).has_value());
}

// Graphs of a video of eight frames, with so many decoded together.
RefusedSizes::Graphs VideoGraphsAt(int side, int chunk) {
  const auto shape = [&](int frames) {
    return pipeline::StepShape{.height = side, .width = side, .frames = frames};
  };
  return {{{}, {pipeline::GraphKind::kStep, shape(8)}},
          {{}, {pipeline::GraphKind::kDecode, shape(chunk)}}};
}

TEST(RefusedSizesTest, KnowsTheChunkWithWhichAVideoFits) {
  RefusedSizes refused(/*grows=*/true);
  refused.Add(VideoGraphsAt(64, 4), 1000);
  refused.SetChunk(VideoGraphsAt(64, 4), 2);
  ASSERT_TRUE(refused.Find(VideoGraphsAt(72, 8)).has_value());
  EXPECT_EQ(refused.Find(VideoGraphsAt(72, 8))->chunk, 2);
  EXPECT_FALSE(refused.Find(VideoGraphsAt(64, 2)).has_value());
}

// An image with steps of one row needs their graph too.
TEST(RefusedSizesTest, FindsNoneThatNeedsGraphsOfFewerRowCounts) {
  RefusedSizes refused(/*grows=*/true);
  refused.Add(GraphsAt(64, 32, {2, 1}), 1000);
  EXPECT_TRUE(refused.Find(GraphsAt(64, 32, {2, 1})).has_value());
  EXPECT_FALSE(refused.Find(GraphsAt(64, 32)).has_value());
}

// Tiles: a larger image may need less.
TEST(RefusedSizesTest, FindsOnlyTheSameWhereNeedsDoNotGrow) {
  RefusedSizes refused(/*grows=*/false);
  refused.Add(GraphsAt(64, 32), 1000);
  EXPECT_TRUE(refused.Find(GraphsAt(64, 32)).has_value());
  EXPECT_FALSE(refused.Find(GraphsAt(64, 33)).has_value());
}

TEST(RefusedSizesTest, ForgetsTheOldest) {
  RefusedSizes refused(/*grows=*/false);
  for (int i = 0; i <= static_cast<int>(RefusedSizes::kMost); ++i) {
    refused.Add(GraphsAt(64 + i, 64), 1);
  }
  EXPECT_TRUE(refused.Find(GraphsAt(64 + static_cast<int>(RefusedSizes::kMost), 64)).has_value());
  EXPECT_FALSE(refused.Find(GraphsAt(64, 64)).has_value());
}

}  // namespace
}  // namespace latentd::engine
