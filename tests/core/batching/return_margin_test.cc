#include "core/batching/admit/return_margin.h"

#include <gtest/gtest.h>

namespace latentd::batching {
namespace {

// Half of what was ahead of the client were others that had been told.
ReturnMargin::Delay DelayOf(const ReturnMargin& margin) {
  return {.factor = margin.factor(),
          .ahead = absl::Seconds(20),
          .told_part = 0.5,
          .alone = absl::Seconds(2)};
}

TEST(ReturnMarginTest, GrowsByWhatADelayWasTooShort) {
  ReturnMargin margin;
  const double least = margin.factor();
  EXPECT_GT(least, 1);
  margin.LearnTooShort(DelayOf(margin), absl::Seconds(10), absl::Seconds(2));
  EXPECT_DOUBLE_EQ(margin.factor(), least + 0.25);
  margin.LearnTooShort(DelayOf(margin), absl::Seconds(0.1), absl::Seconds(2));
  EXPECT_DOUBLE_EQ(margin.factor(), least + 0.375);  // at least by so much, or it would take long
}

// Many were told before the first came.
TEST(ReturnMarginTest, DoesNotGrowForEachThatWasToldWithTheSame) {
  ReturnMargin margin;
  const ReturnMargin::Delay delay = DelayOf(margin);
  margin.LearnTooShort(delay, absl::Seconds(10), absl::Seconds(2));
  const double once = margin.factor();
  for (int i = 0; i < 10; ++i) margin.LearnTooShort(delay, absl::Seconds(10), absl::Seconds(2));
  EXPECT_EQ(margin.factor(), once);
}

// The margin is not for what is here already.
TEST(ReturnMarginTest, DoesNotGrowWhereNoneHadBeenToldBefore) {
  ReturnMargin margin;
  const double least = margin.factor();
  ReturnMargin::Delay delay = DelayOf(margin);
  delay.told_part = 0;
  margin.LearnTooShort(delay, absl::Seconds(10), absl::Seconds(2));
  EXPECT_EQ(margin.factor(), least);
}

// Its times are known when the next are told.
TEST(ReturnMarginTest, DoesNotGrowForADeviceThatHasBecomeSlower) {
  ReturnMargin margin;
  const double least = margin.factor();
  margin.LearnTooShort(DelayOf(margin), absl::Seconds(19), absl::Seconds(4));
  EXPECT_EQ(margin.factor(), least);
  margin.LearnTooShort(DelayOf(margin), absl::Seconds(30), absl::Seconds(4));
  EXPECT_DOUBLE_EQ(margin.factor(), least + 0.25);
}

TEST(ReturnMarginTest, ShrinksWhileTheDeviceIsIdleBetweenThoseThatCome) {
  ReturnMargin margin;
  const double least = margin.factor();
  for (int i = 0; i < 8; ++i) {
    margin.LearnTooShort(DelayOf(margin), absl::Seconds(10), absl::Seconds(2));
  }
  EXPECT_DOUBLE_EQ(margin.factor(), least + 2);
  margin.LearnTooLong(DelayOf(margin), absl::Seconds(2));
  EXPECT_DOUBLE_EQ(margin.factor(), least + 1.75);
  for (int i = 0; i < 100; ++i) margin.LearnTooLong(DelayOf(margin), absl::Seconds(2));
  EXPECT_NEAR(margin.factor(), least, 0.01);
  EXPECT_GE(margin.factor(), least);
}

TEST(ReturnMarginTest, IsBounded) {
  ReturnMargin margin;
  for (int i = 0; i < 100; ++i) {
    margin.LearnTooShort(DelayOf(margin), absl::Hours(1), absl::Seconds(2));
  }
  EXPECT_EQ(margin.factor(), 5);
}

// Nothing is known yet of the device.
TEST(ReturnMarginTest, LearnsNothingFromDelaysThatWereReckonedFromNothing) {
  ReturnMargin margin;
  const double least = margin.factor();
  margin.LearnTooShort({.factor = 1}, absl::Seconds(10), absl::Seconds(2));
  margin.LearnTooLong({.factor = 1}, absl::Seconds(10));
  EXPECT_EQ(margin.factor(), least);
}

}  // namespace
}  // namespace latentd::batching
