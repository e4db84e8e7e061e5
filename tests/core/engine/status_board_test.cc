#include "core/engine/reports/status_board.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <algorithm>
#include <atomic>
#include <functional>
#include <thread>
#include <utility>
#include <vector>

#include "absl/synchronization/notification.h"
#include "tests/support/fake_clock.h"

namespace latentd::engine {
namespace {

using ::testing::ElementsAre;
using ::testing::Pair;

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
  board_.AddListener([&](const ServerStatus&) { ++changes; });
  Set(State::kWarming);
  Set(State::kWarming);
  EXPECT_EQ(changes, 1);
  board_.Update([](ServerStatus& status) { status.graphs_done = 1; });
  EXPECT_EQ(changes, 2);
}

TEST_F(StatusBoardTest, AListenerMayAskForTheStatus) {
  State seen = State::kLoading;
  board_.AddListener([&](const ServerStatus&) { seen = board_.status().state; });
  Set(State::kReady);
  EXPECT_EQ(seen, State::kReady);
}

TEST_F(StatusBoardTest, TellsOneAtATimeAndInOrderWhoeverChangesIt) {
  constexpr int kChanges = 500;
  std::vector<int> seen;
  std::atomic<int> inside = 0, most_inside = 0;
  board_.AddListener([&](const ServerStatus& status) {
    most_inside = std::max<int>(most_inside, ++inside);
    std::this_thread::yield();
    if (inside == 1) seen.push_back(status.graphs_done);
    --inside;
  });
  const auto change = [&] {
    for (int i = 0; i < kChanges; ++i) {
      board_.Update([](ServerStatus& status) { ++status.graphs_done; });
    }
  };
  std::thread other(change);
  change();
  other.join();
  EXPECT_EQ(most_inside, 1);
  EXPECT_EQ(seen.back(), 2 * kChanges);
  EXPECT_EQ(std::adjacent_find(seen.begin(), seen.end(), std::greater_equal<>()), seen.end());
}

TEST_F(StatusBoardTest, AChangeHasBeenToldWhenUpdateReturns) {
  absl::Notification in_listener, go_on;
  std::vector<State> seen;
  board_.AddListener([&](const ServerStatus& status) {
    seen.push_back(status.state);
    if (seen.size() > 1) return;
    in_listener.Notify();
    go_on.WaitForNotification();
  });
  std::thread other([&] { Set(State::kWarming); });
  in_listener.WaitForNotification();
  // Goes on once the change below is made: the listener is in its first call then.
  board_.Update([&](ServerStatus& status) {
    status.state = State::kReady;
    go_on.Notify();
  });
  EXPECT_THAT(seen, ElementsAre(State::kWarming, State::kReady));
  other.join();
}

TEST_F(StatusBoardTest, WhatAListenerChangesIsToldAfterIt) {
  std::vector<std::pair<int, State>> seen;  // by which listener
  board_.AddListener([&](const ServerStatus& status) {
    if (status.state == State::kReady) Set(State::kDraining);
    seen.emplace_back(1, status.state);
  });
  board_.AddListener([&](const ServerStatus& status) { seen.emplace_back(2, status.state); });
  Set(State::kReady);
  EXPECT_THAT(seen, ElementsAre(Pair(1, State::kReady), Pair(2, State::kReady),
                                Pair(1, State::kDraining), Pair(2, State::kDraining)));
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
  EXPECT_EQ(registry_.GetGauge(metrics::kServerState, {"degraded"}).Value(), 1);
  EXPECT_EQ(registry_.GetGauge(metrics::kServerState, {"loading"}).Value(), 0);
  EXPECT_GT(registry_.GetGauge(metrics::kReadyTimestamp).Value(), 0);
}

ServerStatus Merged(const ServerStatus& first, const ServerStatus& second) {
  metrics::Registry registry;
  StatusBoard board(SystemClock(), registry, {"device 0", "device 1"});
  board.Update([&](ServerStatus& status) { status = first; }, 0);
  board.Update([&](ServerStatus& status) { status = second; }, 1);
  return board.status();
}

TEST(SeveralStatusesTest, TheStateIsThatOfTheDeviceThatIsLeastFar) {
  const auto state = [](State first, State second) {
    return Merged({.state = first}, {.state = second}).state;
  };
  EXPECT_EQ(state(State::kReady, State::kReady), State::kReady);
  EXPECT_EQ(state(State::kReady, State::kDegraded), State::kDegraded);
  EXPECT_EQ(state(State::kWarming, State::kReady), State::kWarming);
  EXPECT_EQ(state(State::kWarming, State::kLoading), State::kLoading);
  EXPECT_EQ(state(State::kDraining, State::kFailed), State::kFailed);
}

TEST(SeveralStatusesTest, AReasonNamesTheDeviceWhereNotAllSayTheSame) {
  const ServerStatus ready{.state = State::kReady, .reason = "no base"};
  EXPECT_EQ(Merged(ready, ready).reason, "no base");
  const ServerStatus degraded{.state = State::kDegraded, .reason = "cold"};
  EXPECT_EQ(Merged(ready, degraded).reason, "device 1: cold");
  const ServerStatus edited{.state = State::kDegraded, .reason = "edited"};
  EXPECT_EQ(Merged(edited, degraded).reason, "device 0: edited; device 1: cold");
}

// The others draw on: what the failed one says counts no more.
TEST(SeveralStatusesTest, AFaultOfOneDegradesWhatServesUntilAllHaveFailed) {
  const ServerStatus::Bucket warm{"base", {64, 64}, true, ""}, other{"base", {96, 64}, true, ""};
  const ServerStatus ready{.state = State::kReady, .graphs_total = 4, .buckets = {warm}};
  const ServerStatus failed{.state = State::kFailed,
                            .reason = "why",
                            .device_fault = "a fault",
                            .graphs_total = 4,
                            .buckets = {other}};
  const ServerStatus merged = Merged(ready, failed);
  EXPECT_EQ(merged.state, State::kDegraded);
  EXPECT_EQ(merged.reason, "device 1 has failed: a fault");
  EXPECT_EQ(merged.device_fault, "");
  EXPECT_EQ(merged.graphs_total, 4);
  EXPECT_THAT(merged.buckets, ElementsAre(warm));
  EXPECT_THAT(merged.devices,
              ElementsAre(ServerStatus::Device{"device 0", "", State::kReady, ""},
                          ServerStatus::Device{"device 1", "a fault", State::kFailed, "why"}));
  const ServerStatus degraded{.state = State::kDegraded, .reason = "cold"};
  EXPECT_EQ(Merged(failed, degraded).reason, "device 0 has failed: a fault; cold");
  EXPECT_EQ(Merged({.state = State::kWarming}, failed).state, State::kWarming);
  EXPECT_EQ(Merged({.state = State::kDraining}, failed).state, State::kDraining);
  const ServerStatus last{.state = State::kFailed, .device_fault = "another"};
  const ServerStatus both = Merged(failed, last);
  EXPECT_EQ(both.state, State::kFailed);
  EXPECT_EQ(both.device_fault, "device 0: a fault; device 1: another");
}

TEST(SeveralStatusesTest, CountsOfGraphsAreSums) {
  const ServerStatus first{.graphs_done = 1, .graphs_total = 4};
  ServerStatus second{.graphs_done = 2, .graphs_total = 4};
  second.shared_steps = {3, 5};
  const ServerStatus merged = Merged(first, second);
  EXPECT_EQ(merged.graphs_done, 3);
  EXPECT_EQ(merged.graphs_total, 8);
  EXPECT_EQ(merged.shared_steps, std::nullopt);  // the first is not through
  EXPECT_EQ(Merged(second, second).shared_steps, (ServerStatus::GraphCount{6, 10}));
}

TEST(SeveralStatusesTest, ABucketIsReadyWhereItIsOnOneDevice) {
  const ServerStatus::Bucket ready{"base", {64, 64}, true, ""},
      cold{"base", {64, 64}, false, "cold"};
  const ServerStatus::Bucket other{"base", {96, 64}, false, "not asked for"};
  EXPECT_THAT(Merged({.buckets = {cold}}, {.buckets = {ready, other}}).buckets,
              ElementsAre(ready, other));
  EXPECT_THAT(Merged({.buckets = {ready}}, {.buckets = {cold}}).buckets, ElementsAre(ready));
  const ServerStatus::Bucket anothers{"anime", {64, 64}, false, "cold"};
  EXPECT_THAT(Merged({.buckets = {ready}}, {.buckets = {anothers}}).buckets,
              ElementsAre(ready, anothers));
}

}  // namespace
}  // namespace latentd::engine
