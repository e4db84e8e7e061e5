// Each caller's share of the queue, and the order in which requests of several callers begin.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "core/base/errors/error_details.h"
#include "tests/core/batching/admission_rig.h"

namespace latentd::batching {
namespace {

using ::latentd::testing::StatusIs;
using ::testing::ElementsAre;
using ::testing::HasSubstr;

class CallersTest : public AdmissionRig {};

TEST_F(CallersTest, NobodyTakesThePlacesOfOthers) {
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

TEST_F(CallersTest, EqualPartsAreWhole) {
  Queue queue({.pictures = 10}, clock_);
  for (const char* caller : {"a", "b", "c", "d", "e"}) {
    EXPECT_OK(AskOf(queue, {.caller = caller}));
  }
  EXPECT_OK(AskOf(queue, {.caller = "a"}));
  EXPECT_THAT(GetFacts(AskOf(queue, {.caller = "a"}).status()), IsBound("caller", 2, 2));
}

TEST_F(CallersTest, OfACallersPartAPlaceIsKeptForWhoWasTold) {
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
TEST_F(CallersTest, WhoWasToldComesThoughItsCallersPartIsFull) {
  Admit({.caller = "b"});
  for (int i = 0; i < 4; ++i) Admit({.caller = "a"});
  const Options told = {.caller = "a", .content = 1};
  clock_.Advance(GetRetryDelay(Ask(told).status()).value());
  EXPECT_THAT(GetFacts(Ask({.caller = "a", .content = 2}).status()), IsBound("caller", 4, 4));
  EXPECT_OK(Ask(told));
}

TEST_F(CallersTest, APlaceIsKeptForWhoComesSoon) {
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

TEST_F(CallersTest, OfACallersPartNothingIsKeptForOthersThatWereTold) {
  Learn();
  for (int i = 0; i < 3; ++i) Admit({.steps = 5, .caller = "b"});
  for (int i = 0; i < 4; ++i) Admit({.steps = 5, .caller = "a"});
  for (uint64_t i = 0; i < 8; ++i) {
    EXPECT_THAT(GetFacts(Ask({.caller = "a", .content = i}).status()), IsBound("caller", 4, 4));
  }
  EXPECT_OK(Ask({.caller = "b"}));
}

TEST_F(CallersTest, ACallerWithoutPicturesIsNotHeldToAPart) {
  for (const char* caller : {"a", "b", "c", "d", "e", "f"}) Admit({.caller = caller});
  EXPECT_OK(Ask({.caller = "g"}, 2));
}

TEST_F(CallersTest, NobodyTakesTheTimeOfOthers) {
  Learn();
  Admit({.steps = 1, .caller = "b"});
  Admit({.steps = 10, .deadline = absl::Seconds(40), .caller = "a"});
  const absl::Status refused =
      Ask({.steps = 12, .deadline = absl::Seconds(40), .caller = "a"}).status();
  EXPECT_EQ(GetReason(refused), "PREDICTED_OVERRUN");  // 22 of 40 seconds, of which 20 are b's
  EXPECT_OK(Ask({.steps = 12, .deadline = absl::Seconds(40), .caller = "b"}));
}

TEST_F(CallersTest, CallersTakeTurnsByTheirTime) {
  Learn();
  for (int i = 0; i < 4; ++i) Admit({.steps = 10, .caller = "a"});  // 1 to 4
  for (int i = 0; i < 4; ++i) Admit({.steps = 5, .caller = "b"});   // 5 to 8
  EXPECT_THAT(Order(), ElementsAre(1, 5, 6, 2, 7, 8, 3, 4));
}

// By what their requests take as a whole, once they have begun too.
TEST_F(CallersTest, CallersTakeTurnsOnceRequestsHaveBegun) {
  Learn();
  EXPECT_OK(Ask({.steps = 10, .caller = "a"}, 3));  // 1 to 3: 30 seconds
  queue_.Next();
  Admit({.steps = 10, .caller = "b"});  // 4 to 7
  Admit({.steps = 10, .caller = "b"});
  Admit({.steps = 10, .caller = "b"});
  Admit({.steps = 10, .caller = "a"});
  EXPECT_THAT(Order(), ElementsAre(4, 5, 6, 7));
}

TEST_F(CallersTest, PriorityCountsInACallersTurns) {
  Learn();
  for (int i = 0; i < 3; ++i) Admit({.steps = 10, .caller = "a"});                 // 1 to 3
  for (int i = 0; i < 3; ++i) Admit({.steps = 10, .caller = "b", .priority = 1});  // 4 to 6
  EXPECT_THAT(Order(), ElementsAre(4, 1, 5, 6, 2, 3));
}

TEST_F(CallersTest, WhatIsDueFirstOfACallerBeginsFirst) {
  Admit({});
  Admit({.deadline = absl::Seconds(50)});
  Admit({.deadline = absl::Seconds(20)});
  Admit({.priority = 1});  // half a minute
  EXPECT_THAT(Order(), ElementsAre(3, 4, 2, 1));
}

TEST_F(CallersTest, NobodyWaitsForEver) {
  Admit({.priority = -1});  // due in two minutes
  clock_.Advance(absl::Seconds(100));
  Admit({.deadline = absl::Seconds(10)});
  Admit({});
  EXPECT_THAT(Order(), ElementsAre(2, 1, 3));
}

TEST_F(CallersTest, ARequestThatHasBegunDoesNotWait) {
  EXPECT_OK(Ask({}, 2));
  EXPECT_THAT(Order(), ElementsAre(1));
  queue_.Next();
  queue_.Remove(1);
  EXPECT_THAT(Order(), ElementsAre());  // its second picture does
}

TEST_F(CallersTest, PicturesOfOneRequestStayTogether) {
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
