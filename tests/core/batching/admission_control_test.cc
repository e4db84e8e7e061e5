#include "core/batching/admission_control.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <algorithm>
#include <cmath>
#include <string>
#include <vector>

#include "absl/strings/str_cat.h"
#include "core/base/error_details.h"
#include "core/base/error_facts.h"
#include "core/batching/queue.h"
#include "tests/support/fake_clock.h"
#include "tests/support/status_matchers.h"

namespace latentd::batching {
namespace {

using ::latentd::testing::FakeClock;
using ::latentd::testing::StatusIs;
using ::testing::_;
using ::testing::ElementsAre;
using ::testing::HasSubstr;

auto IsBound(const std::string& bound, int queued, int limit) {
  return ElementsAre(ErrorFact{"bound", bound}, ErrorFact{"queued", absl::StrCat(queued)},
                     ErrorFact{"limit", absl::StrCat(limit)});
}

constexpr Lane kLane{.width = 64, .height = 64};

// A picture takes one row of two and, alone, a second a step: 10 rows a lane would, two of them
// take two seconds a step together.
class AdmissionControlTest : public ::testing::Test {
 protected:
  struct Options {
    int steps = 10;
    absl::Duration deadline = absl::InfiniteDuration();
    std::string caller = "a";
    int priority = 0;
    uint64_t content = 0;
    bool comes_back = true;
  };

  // What a step takes is known.
  void Learn(int times = 4) { LearnIn(queue_, times); }
  static void LearnIn(Queue& queue, int times = 4) {
    const Unit step{.kind = UnitKind::kStep, .lane = kLane, .pictures = {0}};
    for (int i = 0; i < times; ++i) queue.Measure(step, 1, absl::Seconds(1));
  }

  absl::StatusOr<Prospect> Ask(const Options& options, int pictures = 1, size_t bytes = 0) {
    return AskOf(queue_, options, pictures, bytes);
  }
  absl::StatusOr<Prospect> AskOf(Queue& queue, const Options& options, int pictures = 1,
                                 size_t bytes = 0) {
    std::vector<PictureId> ids;
    for (int i = 0; i < pictures; ++i) ids.push_back(next_id_++);
    last_ = ids.front();
    return queue.Admit(
        {.pictures = ids,
         .need = {.kind = UnitKind::kText,
                  .lane = kLane,
                  .lane_rows = 1,
                  .ahead = {.stages = {{{kLane, true, options.steps}}}, .decode = true}},
         .bytes = bytes,
         .caller = options.caller,
         .priority = options.priority,
         .deadline = clock_.Monotonic() + options.deadline,
         .content = options.content,
         .comes_back = options.comes_back});
  }
  PictureId Admit(const Options& options) {
    EXPECT_OK(Ask(options));
    return last_;
  }
  // In the order in which they begin.
  std::vector<PictureId> Order() const {
    std::vector<PictureId> order;
    for (const auto& [picture, prospect] : queue_.Waiting()) order.push_back(picture);
    return order;
  }

  FakeClock clock_;
  Queue queue_{{.pictures = 8, .bytes = 100}, clock_};
  PictureId next_id_ = 1, last_ = 0;
};

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
  EXPECT_EQ(GetRetryDelay(third), absl::Seconds(8));
}

TEST_F(AdmissionControlTest, WhoWasToldToComeBackWaitsNoLongerThanItMay) {
  Queue queue({.pictures = 8, .wait = absl::Seconds(12)}, clock_);
  LearnIn(queue);
  EXPECT_OK(AskOf(queue, {.steps = 20, .content = 1}));
  const absl::Duration delay =
      GetRetryDelay(AskOf(queue, {.steps = 20, .content = 2}).status()).value();
  for (int step = 0; step < 9; ++step) {
    const Unit unit = queue.Next().value();
    clock_.Advance(absl::Seconds(1));
    queue.Measure(unit, 1, absl::Seconds(1));
    queue.Update(unit.pictures.front(),
                 {.kind = UnitKind::kStep,
                  .lane = kLane,
                  .joined = true,
                  .ahead = {.stages = {{{kLane, false, 20 - step - 1}}}, .decode = true}});
  }
  EXPECT_EQ(delay, absl::Seconds(8));
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
  EXPECT_LT(GetRetryDelay(late), absl::Seconds(10));
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

TEST_F(AdmissionControlTest, AdmitsWhatNobodyKnowsTheTimeOf) {
  const Prospect prospect = Ask({.steps = 150, .deadline = absl::Seconds(1)}).value();
  EXPECT_FALSE(prospect.outlook.known);
}

// Else what was measured in a bad moment, or guessed, would keep everybody out.
TEST_F(AdmissionControlTest, TriesWhatWasMeasuredTooFewTimesWhereItDisturbsNobody) {
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

TEST_F(AdmissionControlTest, WhoWillComeMuchLaterKeepsNobodyOut) {
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
  const Options asked{.steps = 5, .deadline = absl::Seconds(12), .content = 7};
  const absl::Duration delay = GetRetryDelay(Ask(asked).status()).value();
  const int steps_left = 10 - static_cast<int>(std::ceil(absl::ToDoubleSeconds(delay)));
  queue_.Update(1, {.kind = UnitKind::kStep,
                    .lane = kLane,
                    .joined = true,
                    .ahead = {.stages = {{{kLane, false, steps_left}}}}});
  clock_.Advance(delay);
  // Others that come first find the time taken.
  EXPECT_EQ(GetReason(Ask({.steps = 5, .deadline = absl::Seconds(12), .content = 8}).status()),
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

TEST_F(AdmissionControlTest, NoRoomIsKeptForWhoAsksElsewhere) {
  Learn();
  for (int i = 0; i < 8; ++i) Admit({.steps = 5});
  const Options elsewhere{.content = 7, .comes_back = false};
  const absl::Duration delay = GetRetryDelay(Ask(elsewhere).status()).value();
  clock_.Advance(delay);
  queue_.Remove(1);
  EXPECT_OK(Ask({.content = 9}));
}

// Nothing would be gained by keeping others out for it.
TEST_F(AdmissionControlTest, WhoIsLateAnywayKeepsNobodyOut) {
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
  EXPECT_EQ(GetRetryDelay(full), absl::Seconds(20));  // one lane of one row: the first to begin
}

TEST_F(AdmissionControlTest, SaysWhetherItIsTheBytes) {
  EXPECT_OK(Ask({}, 1, 60));
  const absl::Status full = Ask({}, 1, 50).status();
  EXPECT_EQ(GetReason(full), "QUEUE_FULL");
  EXPECT_THAT(GetFacts(full), IsBound("bytes", 60, 100));
}

TEST_F(AdmissionControlTest, NobodyTakesThePlacesOfOthers) {
  for (int i = 0; i < 4; ++i) Admit({.caller = "a"});
  Admit({.caller = "b"});
  const absl::Status refused = Ask({.caller = "a"}).status();
  EXPECT_THAT(refused, StatusIs(absl::StatusCode::kResourceExhausted, HasSubstr("4 of 4")));
  EXPECT_THAT(GetFacts(refused), IsBound("caller", 4, 4));
  Admit({.caller = "b"});
  clock_.Advance(absl::Minutes(2));
  queue_.Remove(5);
  queue_.Remove(last_);
  EXPECT_OK(Ask({.caller = "a"}));  // b has not been seen for a while
}

TEST_F(AdmissionControlTest, OfACallersPartAPlaceIsKeptForWhoWasTold) {
  Admit({.caller = "b"});
  const PictureId first = Admit({.caller = "a"});
  for (int i = 0; i < 3; ++i) Admit({.caller = "a"});
  const Options told = {.caller = "a", .content = 1};
  const absl::Status refusal = Ask(told).status();
  EXPECT_THAT(refusal, StatusIs(absl::StatusCode::kResourceExhausted, HasSubstr("caller's part")));
  queue_.Remove(first);
  clock_.Advance(*GetRetryDelay(refusal));
  EXPECT_THAT(Ask({.caller = "a", .content = 2}).status(),
              StatusIs(absl::StatusCode::kResourceExhausted, HasSubstr("caller's part")));
  EXPECT_OK(Ask(told));
}

// Its caller's part was reckoned with when it was told.
TEST_F(AdmissionControlTest, WhoWasToldComesThoughItsCallersPartIsFull) {
  Admit({.caller = "b"});
  for (int i = 0; i < 4; ++i) Admit({.caller = "a"});
  const Options told = {.caller = "a", .content = 1};
  clock_.Advance(GetRetryDelay(Ask(told).status()).value());
  EXPECT_THAT(GetFacts(Ask({.caller = "a", .content = 2}).status()), IsBound("caller", 4, 4));
  EXPECT_OK(Ask(told));
}

TEST_F(AdmissionControlTest, APlaceIsKeptForWhoComesSoon) {
  Learn();
  for (int i = 0; i < 8; ++i) Admit({.steps = 5});
  const Options told = {.content = 1};
  const absl::Duration delay = GetRetryDelay(Ask(told).status()).value();
  ASSERT_GT(delay, absl::Seconds(2));
  queue_.Remove(1);
  clock_.Advance(absl::Seconds(1));
  EXPECT_EQ(GetReason(Ask({.content = 2}).status()), "QUEUE_FULL");
  clock_.Advance(delay - absl::Seconds(1));
  EXPECT_OK(Ask(told));
}

TEST_F(AdmissionControlTest, OfACallersPartNothingIsKeptForOthersThatWereTold) {
  Learn();
  for (int i = 0; i < 3; ++i) Admit({.steps = 5, .caller = "b"});
  for (int i = 0; i < 4; ++i) Admit({.steps = 5, .caller = "a"});
  for (uint64_t i = 0; i < 8; ++i) {
    EXPECT_THAT(GetFacts(Ask({.caller = "a", .content = i}).status()), IsBound("caller", 4, 4));
  }
  EXPECT_OK(Ask({.caller = "b"}));
}

TEST_F(AdmissionControlTest, ACallerWithoutPicturesIsNotHeldToAPart) {
  for (const char* caller : {"a", "b", "c", "d", "e", "f"}) Admit({.caller = caller});
  EXPECT_OK(Ask({.caller = "g"}, 2));
}

TEST_F(AdmissionControlTest, NobodyTakesTheTimeOfOthers) {
  Learn();
  Admit({.steps = 1, .caller = "b"});
  Admit({.steps = 10, .deadline = absl::Seconds(40), .caller = "a"});
  const absl::Status refused =
      Ask({.steps = 12, .deadline = absl::Seconds(40), .caller = "a"}).status();
  EXPECT_EQ(GetReason(refused), "PREDICTED_OVERRUN");  // 22 of 40 seconds, of which 20 are b's
  EXPECT_OK(Ask({.steps = 12, .deadline = absl::Seconds(40), .caller = "b"}));
}

TEST_F(AdmissionControlTest, CallersTakeTurnsByTheirTime) {
  Learn();
  for (int i = 0; i < 4; ++i) Admit({.steps = 10, .caller = "a"});  // 1 to 4
  for (int i = 0; i < 4; ++i) Admit({.steps = 5, .caller = "b"});   // 5 to 8
  EXPECT_THAT(Order(), ElementsAre(1, 5, 6, 2, 7, 8, 3, 4));
}

// By what their requests take as a whole, once they have begun too.
TEST_F(AdmissionControlTest, CallersTakeTurnsOnceRequestsHaveBegun) {
  Learn();
  EXPECT_OK(Ask({.steps = 10, .caller = "a"}, 3));  // 1 to 3: 30 seconds
  queue_.Next();
  Admit({.steps = 10, .caller = "b"});  // 4 to 7
  Admit({.steps = 10, .caller = "b"});
  Admit({.steps = 10, .caller = "b"});
  Admit({.steps = 10, .caller = "a"});
  EXPECT_THAT(Order(), ElementsAre(4, 5, 6, 7));
}

TEST_F(AdmissionControlTest, PriorityCountsInACallersTurns) {
  Learn();
  for (int i = 0; i < 3; ++i) Admit({.steps = 10, .caller = "a"});                 // 1 to 3
  for (int i = 0; i < 3; ++i) Admit({.steps = 10, .caller = "b", .priority = 1});  // 4 to 6
  EXPECT_THAT(Order(), ElementsAre(4, 1, 5, 6, 2, 3));
}

TEST_F(AdmissionControlTest, WhatIsDueFirstOfACallerBeginsFirst) {
  Admit({});
  Admit({.deadline = absl::Seconds(50)});
  Admit({.deadline = absl::Seconds(20)});
  Admit({.priority = 1});  // half a minute
  EXPECT_THAT(Order(), ElementsAre(3, 4, 2, 1));
}

TEST_F(AdmissionControlTest, NobodyWaitsForEver) {
  Admit({.priority = -1});  // due in two minutes
  clock_.Advance(absl::Seconds(100));
  Admit({.deadline = absl::Seconds(10)});
  Admit({});
  EXPECT_THAT(Order(), ElementsAre(2, 1, 3));
}

TEST_F(AdmissionControlTest, ARequestThatHasBegunDoesNotWait) {
  EXPECT_OK(Ask({}, 2));
  EXPECT_THAT(Order(), ElementsAre(1));
  queue_.Next();
  queue_.Remove(1);
  EXPECT_THAT(Order(), ElementsAre());  // its second picture does
}

TEST_F(AdmissionControlTest, PicturesOfOneRequestStayTogether) {
  EXPECT_OK(Ask({}, 2));
  EXPECT_OK(Ask({}, 2));
  std::vector<PictureId> begun;
  for (int i = 0; i < 2; ++i) {
    begun.push_back(queue_.Next()->pictures[0]);
    queue_.Remove(begun.back());
  }
  EXPECT_THAT(begun, ElementsAre(1, 2));
}

}  // namespace
}  // namespace latentd::batching
