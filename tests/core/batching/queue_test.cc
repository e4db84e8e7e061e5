#include "core/batching/queue.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <optional>
#include <vector>

#include "core/base/errors/error_details.h"
#include "tests/support/fake_clock.h"
#include "tests/support/status_matchers.h"

namespace latentd::batching {
namespace {

using ::latentd::testing::FakeClock;
using ::latentd::testing::StatusIs;
using ::testing::ElementsAre;
using ::testing::HasSubstr;
using ::testing::IsEmpty;
using ::testing::SizeIs;

constexpr Lane kLane{.width = 64, .height = 64}, kOther{.width = 96, .height = 64};
const Need kWait{.kind = UnitKind::kWait, .lane = kLane};
const Need kText{.kind = UnitKind::kText, .lane = kLane};
const Need kStep{.kind = UnitKind::kStep, .lane = kLane};

class QueueTest : public ::testing::Test {
 protected:
  FakeClock clock_;
  Queue queue_{{.pictures = 3, .bytes = 100}, clock_};
};

TEST_F(QueueTest, SaysWhenWhatItHasWillBeDone) {
  EXPECT_EQ(queue_.backlog().pictures, 0);
  EXPECT_EQ(queue_.backlog().ends, absl::ZeroDuration());
  EXPECT_TRUE(queue_.backlog().known);
  Need need = kStep;
  need.ahead = {.stages = {{{kLane, false, {{10}}}}}};
  ASSERT_OK(queue_.Admit({.pictures = {1, 2}, .need = need}));
  EXPECT_EQ(queue_.backlog().pictures, 2);
  EXPECT_FALSE(queue_.backlog().known);
  const Unit step{.kind = UnitKind::kStep, .lane = kLane, .pictures = {0}};
  queue_.Measure(step, 1, absl::Seconds(1));
  EXPECT_TRUE(queue_.backlog().known);
  const absl::Duration both = queue_.backlog().ends;
  EXPECT_GE(both, absl::Seconds(10));
  queue_.Remove(1);
  EXPECT_EQ(queue_.backlog().pictures, 1);
  EXPECT_LE(queue_.backlog().ends, both);
}

TEST_F(QueueTest, HasNothingToRunWhenEmpty) { EXPECT_EQ(queue_.Next(), std::nullopt); }

TEST_F(QueueTest, RunsWhatThePictureNeedsNext) {
  ASSERT_OK(queue_.Admit({.pictures = {1}, .need = kText}));
  EXPECT_EQ(queue_.Next()->kind, UnitKind::kText);
  queue_.Update(1, kStep);
  const Unit unit = *queue_.Next();
  EXPECT_EQ(unit.kind, UnitKind::kStep);
  EXPECT_EQ(unit.lane, kLane);
  EXPECT_THAT(unit.pictures, ElementsAre(1));
}

TEST_F(QueueTest, FinishesThePictureAdmittedFirstBeforeTheSecond) {
  ASSERT_OK(queue_.Admit({.pictures = {1, 2}, .need = kText}));
  queue_.Update(1, kStep);
  EXPECT_THAT(queue_.Next()->pictures, ElementsAre(1));
  queue_.Remove(1);
  EXPECT_THAT(queue_.Next()->pictures, ElementsAre(2));
}

TEST_F(QueueTest, PassesOverWhatIsBeingPrepared) {
  ASSERT_OK(queue_.Admit({.pictures = {1}, .need = kWait}));
  EXPECT_FALSE(queue_.CanRun());
  EXPECT_EQ(queue_.Next(), std::nullopt);
  ASSERT_OK(queue_.Admit({.pictures = {2}, .need = kText}));
  EXPECT_TRUE(queue_.CanRun());
  EXPECT_THAT(queue_.Next()->pictures, ElementsAre(2));
}

TEST_F(QueueTest, RunsWhatWasPreparedAfterWhatRunsAndBeforeWhatWaits) {
  ASSERT_OK(queue_.Admit({.pictures = {1}, .need = kWait}));
  ASSERT_OK(queue_.Admit({.pictures = {2}, .need = kText}));
  ASSERT_OK(queue_.Admit({.pictures = {3}, .need = kText}));
  EXPECT_THAT(queue_.Next()->pictures, ElementsAre(2));
  queue_.Update(1, kText);
  EXPECT_THAT(queue_.Next()->pictures, ElementsAre(2));
  queue_.Remove(2);
  EXPECT_THAT(queue_.Next()->pictures, ElementsAre(1));
}

TEST_F(QueueTest, CountsWhatIsBeingPrepared) {
  ASSERT_OK(queue_.Admit({.pictures = {1, 2, 3}, .need = kWait}));
  EXPECT_EQ(GetReason(queue_.Admit({.pictures = {4}, .need = kText}).status()), "QUEUE_FULL");
}

TEST_F(QueueTest, AdmitsAllPicturesOfARequestOrNone) {
  ASSERT_OK(queue_.Admit({.pictures = {1, 2}, .need = kText}));
  EXPECT_THAT(queue_.Admit({.pictures = {3, 4}, .need = kText}),
              StatusIs(absl::StatusCode::kResourceExhausted, HasSubstr("2 of 3")));
  EXPECT_EQ(queue_.size(), 2);
}

TEST_F(QueueTest, BoundsTheBytesThatWaitAndGivesThemBack) {
  ASSERT_OK(queue_.Admit({.pictures = {1}, .need = kText, .bytes = 60}));
  EXPECT_FALSE(queue_.Admit({.pictures = {2}, .need = kText, .bytes = 60}).ok());
  queue_.Remove(1);
  EXPECT_OK(queue_.Admit({.pictures = {2}, .need = kText, .bytes = 60}));
}

TEST_F(QueueTest, IgnoresPicturesThatHaveBeenRemoved) {
  ASSERT_OK(queue_.Admit({.pictures = {1, 2}, .need = kText, .bytes = 60}));
  queue_.Remove(1);
  queue_.Remove(1);
  queue_.Update(1, kStep);
  EXPECT_EQ(queue_.size(), 1);
  EXPECT_THAT(queue_.Next()->pictures, ElementsAre(2));
  EXPECT_FALSE(queue_.Admit({.pictures = {3}, .need = kText, .bytes = 101})
                   .ok());  // the bytes of 1 left once
}

TEST_F(QueueTest, FinishesWhatRunsWhereNothingMayBegin) {
  ASSERT_OK(queue_.Admit({.pictures = {1, 2}, .need = kText}));
  EXPECT_FALSE(queue_.CanRun(/*may_begin=*/false));
  EXPECT_EQ(queue_.Next(/*may_begin=*/false), std::nullopt);
  queue_.Next();
  EXPECT_TRUE(queue_.CanRun(/*may_begin=*/false));
  EXPECT_THAT(queue_.Next(/*may_begin=*/false)->pictures, ElementsAre(1));
  queue_.Remove(1);
  EXPECT_EQ(queue_.Next(/*may_begin=*/false), std::nullopt);
}

TEST_F(QueueTest, KnowsHowManyPicturesAreAdmitted) {
  ASSERT_OK(queue_.Admit({.pictures = {1, 2, 3}, .need = kText}));
  EXPECT_EQ(queue_.size(), 3);
  queue_.Remove(1);
  EXPECT_EQ(queue_.size(), 2);
}

class QueueOfTwoTest : public ::testing::Test {
 protected:
  static constexpr uint64_t kBoth = 3;

  // Need of a picture of so many steps, of a second each.
  static Need NeedOf(int steps) {
    Need need = kText;
    need.ahead = {.stages = {{{kLane, false, {{steps}}}}}};
    return need;
  }
  void Admit(std::vector<PictureId> pictures, int steps = 1, uint64_t devices = kBoth) {
    ASSERT_OK(queue_.Admit({.pictures = pictures, .need = NeedOf(steps), .devices = devices}));
  }
  std::vector<PictureId> NextOn(int device) {
    const std::optional<Unit> unit = queue_.Next(/*may_begin=*/true, device);
    if (!unit) return {};
    EXPECT_EQ(unit->device, device);
    return {unit->pictures.begin(), unit->pictures.end()};
  }
  // Its first unit has run.
  void Begin(PictureId picture, int device, int steps) {
    ASSERT_THAT(NextOn(device), ElementsAre(picture));
    Need need = NeedOf(steps);
    need.kind = UnitKind::kWait;  // the device is at it
    queue_.Update(picture, need);
  }
  void Learn() {
    const Unit step{.kind = UnitKind::kStep, .lane = kLane, .pictures = {0}};
    queue_.Measure(step, /*computed_rows=*/1, absl::Seconds(1));
  }

  FakeClock clock_;
  Queue queue_{{.devices = 2, .pictures = 10}, clock_};
};

TEST_F(QueueOfTwoTest, ARequestBelongsToTheDeviceThatBeginsIt) {
  Admit({1, 2});
  EXPECT_TRUE(queue_.CanRun(/*may_begin=*/true, 0));
  EXPECT_TRUE(queue_.CanRun(/*may_begin=*/true, 1));
  EXPECT_THAT(NextOn(1), ElementsAre(1));
  EXPECT_FALSE(queue_.CanRun(/*may_begin=*/true, 0));
  EXPECT_THAT(NextOn(0), IsEmpty());
  EXPECT_TRUE(queue_.CanRun(/*may_begin=*/true, 1));
}

TEST_F(QueueOfTwoTest, ADeviceTakesNothingThatItCannotRun) {
  Admit({1}, 1, /*devices=*/1);
  EXPECT_FALSE(queue_.CanRun(/*may_begin=*/true, 1));
  EXPECT_THAT(NextOn(1), IsEmpty());
  EXPECT_THAT(NextOn(0), ElementsAre(1));
}

TEST_F(QueueOfTwoTest, WhatWaitsIsForeseenWhereThereIsLeastToDo) {
  Learn();
  Admit({1}, 10);
  Begin(1, 0, 10);
  Admit({2}, 3);
  Begin(2, 1, 3);
  Admit({3}, 3);
  EXPECT_EQ(queue_.backlog(0).pictures, 1);
  EXPECT_EQ(queue_.backlog(1).pictures, 2);
  EXPECT_LT(queue_.backlog(1).ends, queue_.backlog(0).ends);
  ASSERT_THAT(queue_.Waiting(), SizeIs(1));
  EXPECT_EQ(queue_.Waiting().front().second.position, 1);
}

TEST_F(QueueOfTwoTest, ADeviceThatIsFreeTakesWhatWasForeseenOnAnother) {
  Learn();
  Admit({1}, 10);
  Begin(1, 0, 10);
  Admit({2}, 3);
  Begin(2, 1, 3);
  Admit({3}, 3);  // foreseen on the second, which takes longer than was foreseen
  EXPECT_THAT(NextOn(0), ElementsAre(3));
}

}  // namespace
}  // namespace latentd::batching
