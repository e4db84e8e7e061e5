#include "core/batching/admit/admission_control.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <algorithm>
#include <cmath>

#include "core/base/errors/error_details.h"
#include "tests/core/batching/admission_rig.h"

namespace latentd::batching {
namespace {

using ::latentd::testing::StatusIs;
using ::testing::_;
using ::testing::ElementsAre;
using ::testing::HasSubstr;

class AdmissionControlTest : public AdmissionRig {};

TEST_F(AdmissionControlTest, RefusesForGoodWhatCanNeverFit) {
  EXPECT_THAT(Ask({}, 9).status(),
              StatusIs(absl::StatusCode::kInvalidArgument, HasSubstr("at most 8")));
  EXPECT_THAT(Ask({}, 1, 101).status(),
              StatusIs(absl::StatusCode::kInvalidArgument, HasSubstr("100")));
}

TEST_F(AdmissionControlTest, RefusesWhatWouldWaitTooLong) {
  Queue queue({.pictures = 8, .wait = absl::Seconds(12)}, clock_);
  LearnIn(queue);
  EXPECT_OK(AskOf(queue, {.steps = 10}));
  EXPECT_OK(AskOf(queue, {.steps = 10}));
  const absl::Status third = AskOf(queue, {.steps = 10}).status();
  EXPECT_THAT(third, StatusIs(absl::StatusCode::kResourceExhausted, HasSubstr("wait for 20.0 s")));
  EXPECT_EQ(GetReason(third), "QUEUE_FULL");
  EXPECT_THAT(GetFacts(third), ElementsAre(ErrorFact{"bound", "time"}, ErrorFact{"queued", "20.0"},
                                           ErrorFact{"limit", "12.0"}));
  // In 8 s if all goes as foreseen; it finds less than it may wait for.
  EXPECT_EQ(GetRetryDelay(third), absl::Seconds(18));
}

TEST_F(AdmissionControlTest, WhoWasToldToComeBackWaitsNoLongerThanItMay) {
  Queue queue({.pictures = 8, .wait = absl::Seconds(12)}, clock_);
  LearnIn(queue);
  EXPECT_OK(AskOf(queue, {.steps = 20, .content = 1}));
  const absl::Duration delay =
      GetRetryDelay(AskOf(queue, {.steps = 20, .content = 2}).status()).value();
  for (int step = 0; step < 18; ++step) {
    const Unit unit = queue.Next().value();
    clock_.Advance(absl::Seconds(1));
    queue.Measure(unit, 1, absl::Seconds(1));
    queue.Update(unit.pictures.front(), {.kind = UnitKind::kStep,
                                         .lane = kLane,
                                         .joined = true,
                                         .ahead = {.stages = {{{kLane, false, {{20 - step - 1}}}}},
                                                   .after = {UnitKind::kDecode}}});
  }
  EXPECT_EQ(delay, absl::Seconds(18));
  EXPECT_OK(AskOf(queue, {.steps = 20, .content = 2}));
}

TEST_F(AdmissionControlTest, TellsPositionAndTimes) {
  Learn();
  Admit({.steps = 10});
  const Prospect second = Ask({.steps = 5}, 2).value();
  EXPECT_EQ(second.position, 1);
  EXPECT_EQ(second.outlook.begins, absl::Seconds(10));
  EXPECT_EQ(second.outlook.ends, absl::Seconds(20));
}

TEST_F(AdmissionControlTest, RefusesWhatWouldBeLate) {
  Learn();
  Admit({.steps = 10});
  queue_.Next();
  EXPECT_OK(Ask({.steps = 5, .deadline = absl::Seconds(30)}));
  const absl::Status late = Ask({.steps = 5, .deadline = absl::Seconds(12)}).status();
  EXPECT_THAT(late, StatusIs(absl::StatusCode::kDeadlineExceeded, HasSubstr("late")));
  EXPECT_EQ(GetReason(late), "PREDICTED_OVERRUN");
  EXPECT_THAT(GetFacts(late),
              ElementsAre(_, ErrorFact{"deadline_seconds", "12.0"}, ErrorFact{"position", "1"}));
  EXPECT_GT(GetRetryDelay(late), absl::Seconds(3));
  EXPECT_LT(GetRetryDelay(late), absl::Seconds(11));
}

TEST_F(AdmissionControlTest, OfWhatTakesTooLongAloneSaysSoAndNotToComeBack) {
  Learn();
  const absl::Status late = Ask({.steps = 50, .deadline = absl::Seconds(12)}).status();
  EXPECT_THAT(late, StatusIs(absl::StatusCode::kDeadlineExceeded, HasSubstr("nothing else to do")));
  EXPECT_THAT(GetFacts(late),
              ElementsAre(ErrorFact{"predicted_seconds", "55.0"},
                          ErrorFact{"deadline_seconds", "12.0"}, ErrorFact{"position", "0"}));
  EXPECT_EQ(GetRetryDelay(late), std::nullopt);
}

TEST_F(AdmissionControlTest, AdmitsRequestsOfUnknownTime) {
  const Prospect prospect = Ask({.steps = 150, .deadline = absl::Seconds(1)}).value();
  EXPECT_FALSE(prospect.outlook.known);
}

// Else a measurement of a bad moment, or a guess, would keep all out.
TEST_F(AdmissionControlTest, TriesWhatWasMeasuredTooFewTimesWhereItDisturbsNoOther) {
  Learn(/*times=*/1);
  Admit({.steps = 50, .deadline = absl::Seconds(12)});
  EXPECT_EQ(GetReason(Ask({.steps = 50, .deadline = absl::Seconds(12)}).status()),
            "PREDICTED_OVERRUN");
}

// It would be told to come back for ever.
TEST_F(AdmissionControlTest, WhatBarelyFitsAloneIsNotToldToComeBack) {
  Learn();
  const absl::Status late = Ask({.steps = 10, .deadline = absl::Seconds(10.5)}).status();
  EXPECT_EQ(GetReason(late), "PREDICTED_OVERRUN");
  EXPECT_EQ(GetRetryDelay(late), std::nullopt);
}

TEST_F(AdmissionControlTest, ClientsThatComeMuchLaterKeepNoneOut) {
  Learn();
  for (int i = 0; i < 7; ++i) Admit({.steps = 100});
  EXPECT_OK(Ask({.steps = 100}));
  for (uint64_t i = 0; i < 50; ++i) Ask({.steps = 100, .content = i}).IgnoreError();
  while (last_ > 0) queue_.Remove(last_--);
  EXPECT_OK(Ask({.steps = 5, .deadline = absl::Seconds(20), .content = 99}));
}

TEST_F(AdmissionControlTest, IsNewsWhatHasChangedByMoreThanAFifth) {
  const auto at = [](int position, double begins, bool known = true) {
    return Prospect{position, {absl::Seconds(begins), absl::Seconds(begins + 1), known}};
  };
  EXPECT_FALSE(IsNews(at(1, 10), at(1, 11)));
  EXPECT_TRUE(IsNews(at(1, 10), at(1, 14)));
  EXPECT_FALSE(IsNews(at(1, 0.2), at(1, 0.9)));  // less than a second is none
  EXPECT_TRUE(IsNews(at(1, 10), at(0, 10)));
  EXPECT_TRUE(IsNews(at(1, 10, /*known=*/false), at(1, 10)));
}

TEST_F(AdmissionControlTest, RefusesWhatWouldMakeOthersLate) {
  Learn();
  Admit({.steps = 10, .deadline = absl::Seconds(16)});
  const absl::Status refused = Ask({.steps = 5, .deadline = absl::Seconds(10)}).status();
  EXPECT_EQ(GetReason(refused), "PREDICTED_OVERRUN");  // it would come first
  Admit({.steps = 5, .deadline = absl::Seconds(20)});  // it comes after
  const absl::Status full = Ask({.steps = 20, .priority = 3}).status();
  EXPECT_EQ(GetReason(full), "QUEUE_FULL");
  EXPECT_THAT(GetFacts(full), IsBound("deadlines", 2, 8));
}

TEST_F(AdmissionControlTest, ARetryDelayHolds) {
  Learn();
  Admit({.steps = 10});
  queue_.Next();
  const Options asked{.steps = 5, .deadline = absl::Seconds(14), .content = 7};
  const absl::Duration delay = GetRetryDelay(Ask(asked).status()).value();
  const int steps_left = 10 - static_cast<int>(std::ceil(absl::ToDoubleSeconds(delay)));
  queue_.Update(1, {.kind = UnitKind::kStep,
                    .lane = kLane,
                    .joined = true,
                    .ahead = {.stages = {{{kLane, false, {{steps_left}}}}}}});
  clock_.Advance(delay);
  // Others that come first find the time taken.
  EXPECT_EQ(GetReason(Ask({.steps = 8, .deadline = absl::Seconds(12), .content = 8}).status()),
            "PREDICTED_OVERRUN");
  EXPECT_OK(Ask(asked));
}

TEST_F(AdmissionControlTest, WhoComesBackIsNotHeldUpByOthersThatWereToldTo) {
  Learn();
  for (int i = 0; i < 8; ++i) Admit({.steps = 5});
  const Options first{.content = 7}, second{.content = 8};
  const absl::Duration delay = std::max(GetRetryDelay(Ask(first).status()).value(),
                                        GetRetryDelay(Ask(second).status()).value());
  clock_.Advance(delay);
  queue_.Remove(1);
  EXPECT_EQ(GetReason(Ask({.content = 9}).status()), "QUEUE_FULL");  // it is first's or second's
  EXPECT_OK(Ask(first));
}

// Nothing would be gained by keeping others out for it.
TEST_F(AdmissionControlTest, ARequestThatIsLateAnywayKeepsNoneOut) {
  Learn();
  Admit({.steps = 10, .deadline = absl::Seconds(12)});
  clock_.Advance(absl::Seconds(5));
  EXPECT_OK(Ask({.steps = 5}));
}

TEST_F(AdmissionControlTest, SaysWhenAPlaceIsFree) {
  Learn();
  Admit({.steps = 20});
  for (int i = 1; i < 8; ++i) Admit({.steps = 5});
  const absl::Status full = Ask({}).status();
  EXPECT_EQ(GetReason(full), "QUEUE_FULL");
  EXPECT_THAT(full, StatusIs(absl::StatusCode::kResourceExhausted, HasSubstr("8 of 8")));
  EXPECT_THAT(GetFacts(full), IsBound("pictures", 8, 8));
  // One lane of one row: the first to end, since short ones pass, and a tenth more.
  EXPECT_EQ(GetRetryDelay(full), absl::Seconds(5.5));
}

TEST_F(AdmissionControlTest, SaysWhetherItIsTheBytes) {
  EXPECT_OK(Ask({}, 1, 60));
  const absl::Status full = Ask({}, 1, 50).status();
  EXPECT_EQ(GetReason(full), "QUEUE_FULL");
  EXPECT_THAT(GetFacts(full), IsBound("bytes", 60, 100));
}

}  // namespace
}  // namespace latentd::batching
