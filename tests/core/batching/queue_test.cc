#include "core/batching/queue.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "core/base/error_details.h"
#include "tests/support/fake_clock.h"
#include "tests/support/status_matchers.h"

namespace latentd::batching {
namespace {

using ::latentd::testing::FakeClock;
using ::latentd::testing::StatusIs;
using ::testing::ElementsAre;
using ::testing::HasSubstr;

constexpr Lane kLane{.width = 64, .height = 64}, kOther{.width = 96, .height = 64};
constexpr Need kWait{.kind = UnitKind::kWait, .lane = kLane};
constexpr Need kText{.kind = UnitKind::kText, .lane = kLane};
constexpr Need kStep{.kind = UnitKind::kStep, .lane = kLane};

class QueueTest : public ::testing::Test {
 protected:
  FakeClock clock_;
  Queue queue_{{.pictures = 3, .bytes = 100}, clock_};
};

TEST_F(QueueTest, HasNothingToRunWhenEmpty) { EXPECT_EQ(queue_.Next(), std::nullopt); }

TEST_F(QueueTest, RunsWhatThePictureNeedsNext) {
  ASSERT_OK(queue_.Admit({1}, kText, 0));
  EXPECT_EQ(queue_.Next()->kind, UnitKind::kText);
  queue_.Update(1, kStep);
  const Unit unit = *queue_.Next();
  EXPECT_EQ(unit.kind, UnitKind::kStep);
  EXPECT_EQ(unit.lane, kLane);
  EXPECT_THAT(unit.pictures, ElementsAre(1));
}

TEST_F(QueueTest, FinishesThePictureAdmittedFirstBeforeTheSecond) {
  ASSERT_OK(queue_.Admit({1, 2}, kText, 0));
  queue_.Update(1, kStep);
  EXPECT_THAT(queue_.Next()->pictures, ElementsAre(1));
  queue_.Remove(1);
  EXPECT_THAT(queue_.Next()->pictures, ElementsAre(2));
}

TEST_F(QueueTest, PassesOverWhatIsBeingPrepared) {
  ASSERT_OK(queue_.Admit({1}, kWait, 0));
  EXPECT_FALSE(queue_.CanRun());
  EXPECT_EQ(queue_.Next(), std::nullopt);
  ASSERT_OK(queue_.Admit({2}, kText, 0));
  EXPECT_TRUE(queue_.CanRun());
  EXPECT_THAT(queue_.Next()->pictures, ElementsAre(2));
}

TEST_F(QueueTest, RunsWhatWasPreparedAfterWhatRunsAndBeforeWhatWaits) {
  ASSERT_OK(queue_.Admit({1}, kWait, 0));
  ASSERT_OK(queue_.Admit({2}, kText, 0));
  ASSERT_OK(queue_.Admit({3}, kText, 0));
  EXPECT_THAT(queue_.Next()->pictures, ElementsAre(2));
  queue_.Update(1, kText);
  EXPECT_THAT(queue_.Next()->pictures, ElementsAre(2));
  queue_.Remove(2);
  EXPECT_THAT(queue_.Next()->pictures, ElementsAre(1));
}

TEST_F(QueueTest, CountsWhatIsBeingPrepared) {
  ASSERT_OK(queue_.Admit({1, 2, 3}, kWait, 0));
  EXPECT_EQ(GetReason(queue_.Admit({4}, kText, 0)), "QUEUE_FULL");
}

TEST_F(QueueTest, AdmitsAllPicturesOfARequestOrNone) {
  ASSERT_OK(queue_.Admit({1, 2}, kText, 0));
  EXPECT_THAT(queue_.Admit({3, 4}, kText, 0),
              StatusIs(absl::StatusCode::kResourceExhausted, HasSubstr("2 of 3")));
  EXPECT_EQ(queue_.size(), 2);
}

TEST_F(QueueTest, SaysWhenToTryAgainFromTheLastPicturesTime) {
  ASSERT_OK(queue_.Admit({1, 2, 3}, kText, 0));
  queue_.Next();
  clock_.Advance(absl::Seconds(7));
  queue_.Remove(1);
  ASSERT_OK(queue_.Admit({4}, kText, 0));
  const absl::Status full = queue_.Admit({5}, kText, 0);
  EXPECT_EQ(GetReason(full), "QUEUE_FULL");
  EXPECT_EQ(GetRetryDelay(full), absl::Seconds(7));
}

TEST_F(QueueTest, BoundsTheBytesThatWaitAndGivesThemBack) {
  ASSERT_OK(queue_.Admit({1}, kText, 60));
  EXPECT_FALSE(queue_.Admit({2}, kText, 60).ok());
  queue_.Remove(1);
  EXPECT_OK(queue_.Admit({2}, kText, 60));
}

TEST_F(QueueTest, IgnoresPicturesThatHaveBeenRemoved) {
  ASSERT_OK(queue_.Admit({1, 2}, kText, 60));
  queue_.Remove(1);
  queue_.Remove(1);
  queue_.Update(1, kStep);
  EXPECT_EQ(queue_.size(), 1);
  EXPECT_THAT(queue_.Next()->pictures, ElementsAre(2));
  EXPECT_FALSE(queue_.Admit({3}, kText, 101).ok());  // the bytes of 1 left once
}

TEST_F(QueueTest, FinishesWhatRunsWhereNothingMayBegin) {
  ASSERT_OK(queue_.Admit({1, 2}, kText, 0));
  EXPECT_FALSE(queue_.CanRun(/*may_begin=*/false));
  EXPECT_EQ(queue_.Next(/*may_begin=*/false), std::nullopt);
  queue_.Next();
  EXPECT_TRUE(queue_.CanRun(/*may_begin=*/false));
  EXPECT_THAT(queue_.Next(/*may_begin=*/false)->pictures, ElementsAre(1));
  queue_.Remove(1);
  EXPECT_EQ(queue_.Next(/*may_begin=*/false), std::nullopt);
}

TEST_F(QueueTest, KnowsHowManyPicturesAreAdmitted) {
  ASSERT_OK(queue_.Admit({1, 2, 3}, kText, 0));
  EXPECT_EQ(queue_.size(), 3);
  queue_.Remove(1);
  EXPECT_EQ(queue_.size(), 2);
}

}  // namespace
}  // namespace latentd::batching
