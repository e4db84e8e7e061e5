#include "core/engine/admission.h"

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

const RefusedSizes::Picture kRefused = {.size = {512, 256}, .rows = 2, .models = {{0}}};

TEST(RefusedSizesTest, FindsWhatIsNoSmaller) {
  RefusedSizes refused(/*grows=*/true);
  refused.Add(kRefused, 1000);
  RefusedSizes::Picture larger = kRefused;
  EXPECT_EQ(refused.Find(larger), 1000);
  larger.size = {512, 264};
  larger.image = true;
  larger.models.push_back({1});
  EXPECT_TRUE(refused.Find(larger).has_value());
  RefusedSizes::Picture other = kRefused;
  other.size = {504, 1024};
  EXPECT_FALSE(refused.Find(other).has_value());
  other = kRefused;
  other.rows = 1;
  EXPECT_FALSE(refused.Find(other).has_value());
  other = kRefused;
  other.models.clear();
  EXPECT_FALSE(refused.Find(other).has_value());
}

// A picture with steps of one row needs their graph too.
TEST(RefusedSizesTest, FindsNoneThatNeedsGraphsOfFewerRowCounts) {
  RefusedSizes refused(/*grows=*/true);
  RefusedSizes::Picture both = kRefused;
  both.unguided_steps = true;
  refused.Add(both, 1000);
  EXPECT_TRUE(refused.Find(both).has_value());
  EXPECT_FALSE(refused.Find(kRefused).has_value());
}

// Tiles: a larger picture may need less.
TEST(RefusedSizesTest, FindsOnlyTheSameWhereNeedsDoNotGrow) {
  RefusedSizes refused(/*grows=*/false);
  refused.Add(kRefused, 1000);
  RefusedSizes::Picture larger = kRefused;
  EXPECT_TRUE(refused.Find(larger).has_value());
  larger.size.height += 8;
  EXPECT_FALSE(refused.Find(larger).has_value());
}

TEST(RefusedSizesTest, ForgetsTheOldest) {
  RefusedSizes refused(/*grows=*/false);
  RefusedSizes::Picture picture = kRefused;
  for (size_t i = 0; i <= RefusedSizes::kMost; ++i) {
    picture.size.width = 64 + 8 * static_cast<int>(i);
    refused.Add(picture, 1);
  }
  EXPECT_TRUE(refused.Find(picture).has_value());
  picture.size.width = 64;
  EXPECT_FALSE(refused.Find(picture).has_value());
}

}  // namespace
}  // namespace latentd::engine
