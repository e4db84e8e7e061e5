#include "core/engine/loop/unit_watchdog.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "tests/support/fake_clock.h"

namespace latentd::engine {
namespace {

using ::latentd::testing::FakeClock;

const UnitWatchdog::Unit kStep{"request-1", 2, Stage::kSteps, "base", {640, 512}};

class UnitWatchdogTest : public ::testing::Test {
 protected:
  void Run(const UnitWatchdog::Unit& unit, absl::Duration duration) {
    watchdog_.Begin(unit);
    clock_.Advance(duration);
    watchdog_.End();
  }
  // Expects that it is overdue at `limit` and not a moment before.
  void ExpectLimit(const UnitWatchdog::Unit& unit, absl::Duration limit) {
    watchdog_.Begin(unit);
    clock_.Advance(limit - absl::Milliseconds(1));
    EXPECT_FALSE(watchdog_.Overdue().has_value());
    clock_.Advance(absl::Milliseconds(1));
    EXPECT_TRUE(watchdog_.Overdue().has_value());
    watchdog_.End();
    EXPECT_FALSE(watchdog_.Overdue().has_value());
  }

  FakeClock clock_;
  UnitWatchdog watchdog_{clock_};
};

TEST_F(UnitWatchdogTest, HasNothingToSayWhileNothingRuns) {
  clock_.Advance(absl::Hours(100));
  EXPECT_FALSE(watchdog_.Overdue().has_value());
}

TEST_F(UnitWatchdogTest, GivesTheFirstUnitOfItsKindHalfAnHour) {
  ExpectLimit(kStep, absl::Minutes(30));
}

TEST_F(UnitWatchdogTest, GivesLaterUnitsTenTimesTheLongest) {
  Run(kStep, absl::Seconds(20));
  Run(kStep, absl::Seconds(7));
  ExpectLimit(kStep, absl::Seconds(200));
}

TEST_F(UnitWatchdogTest, GivesEveryUnitAMinute) {
  Run(kStep, absl::Milliseconds(3));
  ExpectLimit(kStep, absl::Minutes(1));
}

TEST_F(UnitWatchdogTest, MeasuresStagesModelsAndSizesApart) {
  Run(kStep, absl::Seconds(20));
  UnitWatchdog::Unit decode = kStep;
  decode.stage = Stage::kDecode;
  ExpectLimit(decode, absl::Minutes(30));
  UnitWatchdog::Unit refined = kStep;
  refined.model = "refiner";
  ExpectLimit(refined, absl::Minutes(30));
  UnitWatchdog::Unit wide = kStep;
  wide.size = {2048, 512};
  ExpectLimit(wide, absl::Minutes(30));
  UnitWatchdog::Unit video = kStep;
  video.size.frames = 25;
  ExpectLimit(video, absl::Minutes(30));
  UnitWatchdog::Unit of_another_request = kStep;
  of_another_request.request_id = "request-2";
  ExpectLimit(of_another_request, absl::Seconds(200));
}

TEST_F(UnitWatchdogTest, DoesNotLearnFromAUnitThatWasOverdue) {
  Run(kStep, absl::Seconds(20));
  Run(kStep, absl::Hours(5));
  ExpectLimit(kStep, absl::Seconds(200));
}

TEST_F(UnitWatchdogTest, NamesTheUnit) {
  Run(kStep, absl::Seconds(8));
  watchdog_.Begin(kStep);
  clock_.Advance(absl::Seconds(90));
  const OverdueUnit overdue = watchdog_.Overdue().value();
  EXPECT_EQ(overdue.request_id, "request-1");
  EXPECT_EQ(overdue.image_index, 2);
  EXPECT_EQ(overdue.stage, Stage::kSteps);
  EXPECT_EQ(overdue.executed_size, (pipeline::Size{640, 512}));
  EXPECT_EQ(overdue.running, absl::Seconds(90));
  EXPECT_EQ(overdue.limit, absl::Seconds(80));
}

}  // namespace
}  // namespace latentd::engine
