#include "core/batching/predict/turns.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <map>
#include <vector>

#include "core/batching/predict/unit.h"

namespace latentd::batching {
namespace {

constexpr Lane kWide{.width = 1536, .height = 640}, kSmall{.width = 64, .height = 64};

class TurnsTest : public ::testing::Test {
 protected:
  // A turn of the lane of these whose it is; its steps take as long as it is wide.
  Lane Run(const std::vector<Lane>& lanes) {
    const Lane lane = turns_.Next(lanes).value();
    turns_.Begin(lane, absl::Milliseconds(lane.width));
    time_[lane.width] += absl::Milliseconds(lane.width);
    return lane;
  }

  Turns<Lane> turns_;
  std::map<int, absl::Duration> time_;
  std::map<int, int> turns_of_;
};

TEST_F(TurnsTest, AreNobodysWhereThereIsNothingToDo) { EXPECT_EQ(turns_.Next({}), std::nullopt); }

TEST_F(TurnsTest, GiveLanesTheSameTime) {
  for (int i = 0; i < 1000; ++i) Run({kWide, kSmall});
  EXPECT_LE(time_[1536] - time_[64], absl::Milliseconds(1536));
  EXPECT_LE(time_[64] - time_[1536], absl::Milliseconds(1536));
}

TEST_F(TurnsTest, GiveNoTimeLaterForWhatALaneDidNotUse) {
  for (int i = 0; i < 100; ++i) Run({kWide});
  Run({kWide, kSmall});
  time_.clear();
  for (int i = 0; i < 100; ++i) Run({kWide, kSmall});
  EXPECT_LE(time_[64] - time_[1536], absl::Milliseconds(1536));
}

// The next unit is asked for while one is with the device: what it takes is not known yet.
TEST_F(TurnsTest, AreCorrectedByWhatAUnitTook) {
  Run({kWide});
  Run({kSmall});
  EXPECT_EQ(turns_.Next({kSmall, kWide}), kSmall);  // 64 ms so far, against 1536
  turns_.Correct(kSmall, absl::Milliseconds(64), absl::Seconds(100));
  EXPECT_EQ(turns_.Next({kSmall, kWide}), kWide);
  turns_.Correct(kSmall, absl::Seconds(100), absl::Milliseconds(64));
  EXPECT_EQ(turns_.Next({kSmall, kWide}), kSmall);
}

TEST_F(TurnsTest, AreTakenByThoseThatNobodyKnowsTheTimeOf) {
  for (int i = 0; i < 10; ++i) {
    const Lane lane = turns_.Next({kWide, kSmall}).value();
    turns_.Begin(lane, absl::ZeroDuration());
    ++turns_of_[lane.width];
  }
  EXPECT_EQ(turns_of_[1536], 5);
}

// Forgotten lanes lose their past shares, so no lane can have been given more than another.
TEST_F(TurnsTest, ForgetLanesWhenClientsChooseTooMany) {
  turns_.Begin(kWide, absl::Seconds(1));
  const absl::Duration had = turns_.StartOf(kWide);
  for (int side = 1; side < 1000; ++side) {
    turns_.Begin({.width = side, .height = 8}, absl::Milliseconds(1));
  }
  EXPECT_LT(turns_.StartOf(kWide), had);
}

}  // namespace
}  // namespace latentd::batching
