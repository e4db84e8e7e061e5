#include "core/batching/turns.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <map>
#include <vector>

namespace latentd::batching {
namespace {

constexpr Lane kWide{.width = 1536, .height = 640}, kSmall{.width = 64, .height = 64};

class TurnsTest : public ::testing::Test {
 protected:
  // A turn of the lane of these whose it is; its steps take as long as it is wide.
  Lane Run(const std::vector<Lane>& lanes) {
    const Lane lane = turns_.Next(lanes).value();
    turns_.Begin(lane, UnitKind::kStep);
    turns_.Measure(lane, UnitKind::kStep, absl::Milliseconds(lane.width));
    time_[lane.width] += absl::Milliseconds(lane.width);
    return lane;
  }

  Turns turns_;
  std::map<int, absl::Duration> time_;
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
TEST_F(TurnsTest, ExpectWhatAUnitOfThatKindTookTheLastTime) {
  Run({kWide});
  Run({kSmall});
  turns_.Begin(kSmall, UnitKind::kStep);
  EXPECT_EQ(turns_.Next({kSmall, kWide}), kSmall);  // 128 ms so far, against 1536
  turns_.Begin(kWide, UnitKind::kDecode);           // nobody knows
  turns_.Begin(kSmall, UnitKind::kStep);
  EXPECT_EQ(turns_.Next({kWide, kSmall}), kWide);
  turns_.Measure(kWide, UnitKind::kDecode, absl::Seconds(100));
  EXPECT_EQ(turns_.Next({kWide, kSmall}), kSmall);
}

TEST_F(TurnsTest, ForgetLanesWhenClientsChooseTooMany) {
  for (int side = 1; side < 1000; ++side) {
    const Lane lane{.width = side, .height = 8};
    turns_.Begin(lane, UnitKind::kText);
    turns_.Measure(lane, UnitKind::kText, absl::Milliseconds(1));
  }
  EXPECT_LE(turns_.lanes(), 256u);
}

}  // namespace
}  // namespace latentd::batching
