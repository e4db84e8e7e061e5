// Bursts of 16 requests with deadlines of four times what each takes alone. Three or four fit; the
// others come back when they are told to, each with as much time as before. Pictures fill the
// device and take 1.2 s, unless a test says otherwise.
#include <gtest/gtest.h>

#include <cstdint>

#include "tests/core/batching/played_server.h"

namespace latentd::batching {
namespace {

PlayedLoad Bursts() {
  return {.times_alone = 4,
          .bursts = {.requests = 16},
          .length = absl::Minutes(6),
          .is_device_full = true,
          .lane_rows = 4,
          .lane_places = 8};
}

class BurstsTest : public ::testing::Test {
 protected:
  void Play(const PlayedLoad& load) {
    for (uint32_t seed = 1; seed <= 10; ++seed) {
      const PlayedResult result = PlayedServer(load, seed).Run();
      came_back_ += result.came_back;
      served_ += result.came_back_and_served;
      late_ += result.late;
      refused_as_foreseen_ += result.refused_as_foreseen;
      busy_ += result.busy;
      idle_ += result.idle;
    }
  }
  // Part of the calls of clients that came when told.
  double served() const { return served_ / came_back_; }
  // Part of the time in which the device was busy or clients waited.
  double idle() const { return absl::FDivDuration(idle_, idle_ + busy_); }

  void ExpectServedInTurn(double least, double most_idle) {
    EXPECT_GT(came_back_, 100);
    EXPECT_GE(served(), least);
    EXPECT_LE(idle(), most_idle);
    EXPECT_LE(late_, 0.06 * came_back_);
  }
  // The others were told before the device slowed, and find it busy for twice as long as foreseen:
  // delays that were long enough for that would be idle time wherever it does not slow.
  void ExpectRefusedOnlyIfToldBefore() { EXPECT_LE(refused_as_foreseen_, 0.01 * came_back_); }

 private:
  double came_back_ = 0, served_ = 0, late_ = 0, refused_as_foreseen_ = 0;
  absl::Duration busy_, idle_;
};

TEST_F(BurstsTest, WhoComesWhenToldIsServedAndNoTimeIsLeftBetween) {
  Play(Bursts());
  ExpectServedInTurn(0.99, 0.1);
}

// Nothing is known of whether they come.
TEST_F(BurstsTest, TheFirstBurstIsServedLikeOthers) {
  PlayedLoad load = Bursts();
  load.length = absl::Seconds(30);
  Play(load);
  ExpectServedInTurn(0.99, 0.1);
}

TEST_F(BurstsTest, TimesThatVaryAreAllowedFor) {
  PlayedLoad load = Bursts();
  load.noise = 0.3;
  Play(load);
  ExpectServedInTurn(0.97, 0.08);
}

// Other work on the machine slows it for seconds.
TEST_F(BurstsTest, PhasesThatAreSlowAreAllowedFor) {
  PlayedLoad load = Bursts();
  load.noise = 0.3;
  load.noise_lasts = absl::Seconds(3);
  Play(load);
  ExpectServedInTurn(0.95, 0.15);
}

TEST_F(BurstsTest, ShortPicturesAreServedInTurn) {
  PlayedLoad load = Bursts();
  load.noise = 0.3;
  load.bursts.size = 256;  // 0.3 s
  Play(load);
  ExpectServedInTurn(0.97, 0.08);
}

TEST_F(BurstsTest, RowsThatAreCheaperTogetherAreServedInTurn) {
  PlayedLoad load = Bursts();
  load.noise = 0.3;
  load.is_device_full = false;
  load.lane_rows = load.lane_places = 16;
  load.bursts.steps = 80;
  Play(load);
  ExpectServedInTurn(0.97, 0.1);
}

// Twice as slow for two bursts. Who has been told already comes too early once; from then on delays
// are what pictures take, and again when they are fast.
TEST_F(BurstsTest, ADeviceThatSlowsAndRecoversMakesDelaysNoLongerThanPictures) {
  PlayedLoad load = Bursts();
  load.slow_from = absl::Seconds(60);
  load.slow_until = absl::Seconds(179);
  Play(load);
  ExpectServedInTurn(0.95, 0.12);
}

TEST_F(BurstsTest, ADeviceThatSlowsWhileTheyWaitIsForgotten) {
  PlayedLoad load = Bursts();
  load.slow_from = absl::Seconds(70);
  load.slow_until = absl::Seconds(180);
  Play(load);
  ExpectServedInTurn(0.9, 0.1);
  ExpectRefusedOnlyIfToldBefore();
}

TEST_F(BurstsTest, ThoseWhoNeverComeMakeOthersNoEarlier) {
  PlayedLoad load = Bursts();
  load.noise = 0.3;
  load.bursts.come_back = 0.5;
  Play(load);
  ExpectServedInTurn(0.95, 0.25);
}

// As `latent` does.
TEST_F(BurstsTest, ThoseWhoAddAQuarterOfTheDelayAreServed) {
  PlayedLoad load = Bursts();
  load.noise = 0.3;
  load.bursts.lateness = 0.25;
  Play(load);
  ExpectServedInTurn(0.97, 0.2);
}

// Each of them has a place, though none can be told from another.
TEST_F(BurstsTest, EqualRequestsAreServedLikeOthers) {
  PlayedLoad load = Bursts();
  load.bursts.are_equal = true;
  Play(load);
  ExpectServedInTurn(0.97, 0.1);
}

TEST_F(BurstsTest, DeadlinesThatFitOneAreKept) {
  PlayedLoad load = Bursts();
  load.noise = 0.2;
  load.times_alone = 1.5;
  Play(load);
  ExpectServedInTurn(0.97, 0.15);
}

TEST_F(BurstsTest, LongQueuesAreServedInTurn) {
  PlayedLoad load = Bursts();
  load.noise = 0.3;
  load.bursts.requests = 60;
  load.bursts.every = absl::Seconds(150);
  load.length = absl::Minutes(10);
  Play(load);
  ExpectServedInTurn(0.97, 0.15);
}

TEST_F(BurstsTest, CallersThatComeTogetherAreServed) {
  PlayedLoad load = Bursts();
  load.noise = 0.2;
  load.callers = 8;
  Play(load);
  ExpectServedInTurn(0.97, 0.08);
}

// Any limit may be full: one delay each for one place each.
class BurstsWithoutDeadlinesTest : public BurstsTest {
 protected:
  void PlayWith(const Limits& limits) {
    PlayedLoad load = Bursts();
    load.noise = 0.2;
    load.times_alone = 1000;
    load.limits = limits;
    load.bursts.bytes = 100;
    Play(load);
    ExpectServedInTurn(0.97, 0.05);
  }
};

TEST_F(BurstsWithoutDeadlinesTest, AreServedWhereFourPicturesHaveAPlace) {
  PlayWith({.pictures = 4});
}
TEST_F(BurstsWithoutDeadlinesTest, AreServedWhereNoneMayWaitForLong) {
  PlayWith({.wait = absl::Seconds(4)});
}
TEST_F(BurstsWithoutDeadlinesTest, AreServedWhereBytesAreFew) { PlayWith({.bytes = 400}); }

}  // namespace
}  // namespace latentd::batching
