#include "core/engine/status_board.h"

#include <gtest/gtest.h>

#include "tests/support/fake_clock.h"

namespace latentd::engine {
namespace {

class StatusBoardTest : public ::testing::Test {
 protected:
  void Set(State state) {
    board_.Update([&](ServerStatus& status) { status.state = state; });
  }

  testing::FakeClock clock_;
  metrics::Registry registry_;
  StatusBoard board_{clock_, registry_};
};

TEST_F(StatusBoardTest, TellsListenersOfChangesOnly) {
  int changes = 0;
  board_.AddListener([&] { ++changes; });
  Set(State::kWarming);
  Set(State::kWarming);
  EXPECT_EQ(changes, 1);
  board_.Update([](ServerStatus& status) { status.graphs_done = 1; });
  EXPECT_EQ(changes, 2);
}

TEST_F(StatusBoardTest, AListenerMayAskForTheStatus) {
  State seen = State::kLoading;
  board_.AddListener([&] { seen = board_.status().state; });
  Set(State::kReady);
  EXPECT_EQ(seen, State::kReady);
}

TEST_F(StatusBoardTest, KnowsWhenItWasReadyFirst) {
  EXPECT_EQ(board_.status().ready, absl::InfiniteFuture());
  clock_.Advance(absl::Seconds(5));
  Set(State::kDegraded);
  clock_.Advance(absl::Seconds(5));
  Set(State::kReady);
  EXPECT_EQ(board_.status().ready - board_.status().started, absl::Seconds(5));
}

TEST_F(StatusBoardTest, NeverLeavesDraining) {
  Set(State::kDraining);
  for (State state : {State::kReady, State::kFailed, State::kWarming}) {
    Set(state);
    EXPECT_EQ(board_.state(), State::kDraining);
  }
}

TEST_F(StatusBoardTest, LeavesFailedForDrainingOnly) {
  Set(State::kFailed);
  Set(State::kReady);
  EXPECT_EQ(board_.state(), State::kFailed);
  Set(State::kDraining);
  EXPECT_EQ(board_.state(), State::kDraining);
}

TEST_F(StatusBoardTest, ShowsTheStateAsAMetric) {
  Set(State::kDegraded);
  EXPECT_EQ(registry_.GetGauge(metrics::kServerState, {"degraded"}).value(), 1);
  EXPECT_EQ(registry_.GetGauge(metrics::kServerState, {"loading"}).value(), 0);
  EXPECT_GT(registry_.GetGauge(metrics::kReadyTimestamp).value(), 0);
}

}  // namespace
}  // namespace latentd::engine
