#include "client/rpc/retry.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <deque>
#include <vector>

#include "tests/client/failed_calls.h"
#include "tests/support/fake_clock.h"

namespace latentd::client {
namespace {

using grpc::StatusCode;
using ::testing::ElementsAre;
using ::testing::Optional;

constexpr RetryPolicy kPolicy{
    .retries = 3, .first_pause = absl::Milliseconds(200), .longest_pause = absl::Milliseconds(500)};
constexpr absl::Duration kAges = absl::InfiniteDuration();

RetrySchedule Schedule(double random) {
  return RetrySchedule(kPolicy, [random] { return random; });
}

TEST(RetryScheduleTest, PausesDoubleUpToTheLongest) {
  RetrySchedule schedule = Schedule(/*random=*/1);
  const grpc::Status status = Failed(StatusCode::UNAVAILABLE);
  EXPECT_THAT(schedule.PauseAfter(status, kAges), Optional(absl::Milliseconds(200)));
  EXPECT_THAT(schedule.PauseAfter(status, kAges), Optional(absl::Milliseconds(400)));
  EXPECT_THAT(schedule.PauseAfter(status, kAges), Optional(absl::Milliseconds(500)));
  EXPECT_EQ(schedule.PauseAfter(status, kAges), std::nullopt);
}

TEST(RetryScheduleTest, JitterTakesUpToHalf) {
  EXPECT_THAT(Schedule(0).PauseAfter(Failed(StatusCode::UNAVAILABLE), kAges),
              Optional(absl::Milliseconds(100)));
}

TEST(RetryScheduleTest, TheServersDelayIsKept) {
  const grpc::Status full = Failed(StatusCode::RESOURCE_EXHAUSTED, absl::Seconds(8));
  EXPECT_THAT(Schedule(0).PauseAfter(full, kAges), Optional(absl::Seconds(8)));
  EXPECT_THAT(Schedule(1).PauseAfter(full, kAges), Optional(absl::Seconds(10)));
}

TEST(RetryScheduleTest, NothingIsWaitedForBeyondTheDeadline) {
  const grpc::Status loading = Failed(StatusCode::UNAVAILABLE, absl::Seconds(2));
  EXPECT_EQ(Schedule(0).PauseAfter(loading, absl::Seconds(2)), std::nullopt);
  EXPECT_THAT(Schedule(0).PauseAfter(loading, absl::Seconds(2.1)), Optional(absl::Seconds(2)));
}

TEST(RetryScheduleTest, OnlyWhatIsSafeIsTriedAgain) {
  for (int code = 1; code <= 16; ++code) {
    const bool safe = code == StatusCode::UNAVAILABLE || code == StatusCode::UNKNOWN ||
                      code == StatusCode::CANCELLED;
    const grpc::Status status = Failed(static_cast<StatusCode>(code));
    EXPECT_EQ(Schedule(0).PauseAfter(status, kAges).has_value(), safe) << code;
  }
}

TEST(RetryScheduleTest, AStreamThatWasResetIsNoFaultOfTheServer) {
  const grpc::Status reset(StatusCode::INTERNAL, "Received RST_STREAM with error code 2");
  EXPECT_TRUE(Schedule(0).PauseAfter(reset, kAges).has_value());
}

class RetryLoopTest : public ::testing::Test {
 protected:
  grpc::Status Run(std::deque<Attempt> attempts, absl::Duration timeout = absl::Minutes(1)) {
    const RetryLoop loop{.policy = kPolicy,
                         .clock = clock_,
                         .random = [] { return 1.0; },
                         .wait =
                             [this](absl::Duration pause) {
                               clock_.Advance(pause);
                               return cancelled_;
                             },
                         .on_retry =
                             [this](const Retry& retry) {
                               pauses_.push_back(retry.pause);
                               cancelled_ = cancel_while_waiting_;
                             }};
    return loop.Run(clock_.Monotonic() + timeout, [&] {
      const Attempt attempt = attempts.front();
      attempts.pop_front();
      ++tries_;
      return attempt;
    });
  }

  testing::FakeClock clock_;
  std::vector<absl::Duration> pauses_;
  bool cancelled_ = false;
  bool cancel_while_waiting_ = false;
  int tries_ = 0;
};

TEST_F(RetryLoopTest, EndsWithTheFirstSuccess) {
  const Attempt broken{Failed(StatusCode::UNKNOWN)};
  EXPECT_TRUE(Run({broken, broken, {grpc::Status::OK, true}}).ok());
  EXPECT_EQ(tries_, 3);
  EXPECT_THAT(pauses_, ElementsAre(absl::Milliseconds(200), absl::Milliseconds(400)));
}

TEST_F(RetryLoopTest, GivesUpWithTheLastStatus) {
  const Attempt away{Failed(StatusCode::UNAVAILABLE)};
  const Attempt full{Failed(StatusCode::RESOURCE_EXHAUSTED, absl::Seconds(1))};
  EXPECT_EQ(Run({away, away, away, full}).error_code(), StatusCode::RESOURCE_EXHAUSTED);
  EXPECT_EQ(tries_, 4);
}

TEST_F(RetryLoopTest, ADeadlineThatPassesMeanwhileEndsIt) {
  const Attempt full{Failed(StatusCode::RESOURCE_EXHAUSTED, absl::Seconds(8))};
  EXPECT_EQ(Run({full, full}, absl::Seconds(15)).error_code(), StatusCode::RESOURCE_EXHAUSTED);
  EXPECT_EQ(tries_, 2);
}

TEST_F(RetryLoopTest, NothingIsTriedAgainOnceAPictureHasBeenReceived) {
  EXPECT_EQ(Run({{Failed(StatusCode::UNAVAILABLE), true}}).error_code(), StatusCode::UNAVAILABLE);
  EXPECT_EQ(tries_, 1);
}

TEST_F(RetryLoopTest, AServerThatWasNeverThereIsNotWaitedFor) {
  for (const std::string& words : {kRefused, kNoSocket, kNoHost}) {
    tries_ = 0;
    Run({{grpc::Status(StatusCode::UNAVAILABLE, words)}});
    EXPECT_EQ(tries_, 1) << words;
  }
  EXPECT_THAT(pauses_, ElementsAre());
}

TEST_F(RetryLoopTest, OneThatWentAwayIs) {
  const Attempt gone{grpc::Status(StatusCode::UNAVAILABLE, kRefused)};
  EXPECT_TRUE(Run({{Failed(StatusCode::UNAVAILABLE)}, gone, gone, {grpc::Status::OK, true}}).ok());
  EXPECT_EQ(tries_, 4);
}

// It listens, and says so of a replica behind it.
TEST_F(RetryLoopTest, AProxyIsAskedAgain) {
  const Attempt replica{
      grpc::Status(StatusCode::UNAVAILABLE, "upstream connect error: Connection refused")};
  EXPECT_TRUE(Run({replica, {grpc::Status::OK, true}}).ok());
  EXPECT_EQ(tries_, 2);
}

TEST_F(RetryLoopTest, CancellingEndsTheWait) {
  cancel_while_waiting_ = true;
  EXPECT_EQ(Run({{Failed(StatusCode::UNAVAILABLE)}}).error_code(), StatusCode::CANCELLED);
  EXPECT_EQ(tries_, 1);
}

TEST_F(RetryLoopTest, WhatThisSideCancelledIsNotTriedAgain) {
  cancelled_ = true;
  EXPECT_EQ(Run({{Failed(StatusCode::CANCELLED)}}).error_code(), StatusCode::CANCELLED);
  EXPECT_THAT(pauses_, ElementsAre());
}

}  // namespace
}  // namespace latentd::client
