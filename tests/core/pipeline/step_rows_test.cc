#include "core/pipeline/spec/step_rows.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "core/pipeline/spec/request/limits.h"

namespace latentd::pipeline {
namespace {

using ::testing::ElementsAre;
using ::testing::IsEmpty;

const std::vector<int> kCounts = {1, 2, 4, 8, 16};

TEST(StepRowsTest, ALargeSizeHasFewerWhereNobodySaysOtherwise) {
  const StepRows rows{kCounts};
  EXPECT_THAT(rows.At({512, 512}), ElementsAre(1, 2, 4, 8, 16));
  EXPECT_THAT(rows.At({768, 768}), ElementsAre(1, 2, 4, 8));
  EXPECT_THAT(rows.At({1024, 1024}), ElementsAre(1, 2, 4, 8));
  EXPECT_THAT(rows.At({1152, 896}), ElementsAre(1, 2, 4, 8));
  EXPECT_THAT(rows.At({1536, 1536}), ElementsAre(1, 2));
  EXPECT_THAT(rows.At({2048, 2048}), ElementsAre(1, 2));
}

TEST(StepRowsTest, AnEvaluationMayHaveAsManyPixelsAsTheLimitSays) {
  EXPECT_THAT((StepRows{kCounts, 4 * 128 * 64}.At({128, 64})), ElementsAre(1, 2, 4));
  EXPECT_THAT((StepRows{kCounts, 4 * 128 * 64 - 1}.At({128, 64})), ElementsAre(1, 2));
  EXPECT_THAT((StepRows{kCounts, 4 * 128 * 64}.At({64, 128})), ElementsAre(1, 2, 4));
}

TEST(StepRowsTest, EachFrameOfAVideoCounts) {
  EXPECT_THAT((StepRows{kCounts, 4 * 128 * 64}.At({64, 64, 2})), ElementsAre(1, 2, 4));
  EXPECT_THAT((StepRows{kCounts, 4 * 128 * 64}.At({64, 64, 3})), ElementsAre(1, 2));
}

TEST(StepRowsTest, WhatOnePictureMayNeedIsThereAtAnySize) {
  EXPECT_THAT((StepRows{kCounts, 0}.At({kMaxSide, kMaxSide})), ElementsAre(1, 2));
  EXPECT_THAT((StepRows{{4, 2}, 0}.At({64, 64})), ElementsAre(2));
  EXPECT_THAT((StepRows{{}, 1 << 20}.At({64, 64})), IsEmpty());
}

TEST(StepRowsTest, TheyAscendInWhateverOrderTheyAreGiven) {
  EXPECT_THAT((StepRows{{8, 1, 4, 2}}.At({64, 64})), ElementsAre(1, 2, 4, 8));
}

// Rows and pixels of the largest pictures, beyond what an int holds with more rows than there are.
TEST(StepRowsTest, PixelsAreCountedBeyondAnInt) {
  const StepRows rows{{1, 1024}, int64_t{1024} * kMaxPixels};
  EXPECT_THAT(rows.At({2048, 2048}), ElementsAre(1, 1024));
  EXPECT_THAT((StepRows{{1, 1024}, int64_t{1024} * kMaxPixels - 1}.At({2048, 2048})),
              ElementsAre(1));
}

}  // namespace
}  // namespace latentd::pipeline
