// A queue's forecast follows all changes of the queue, and the time.
#include "core/batching/predict/timetable.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "core/batching/queue.h"
#include "tests/support/fake_clock.h"
#include "tests/support/status_matchers.h"

namespace latentd::batching {
namespace {

using ::testing::ElementsAre;

constexpr Lane kLane{.width = 64, .height = 64};

Need StepsOf(int steps) {
  return {.kind = UnitKind::kStep,
          .lane = kLane,
          .ahead = {.stages = {{{.lane = kLane, .runs = {{steps}}}}}}};
}

class TimetableTest : public ::testing::Test {
 protected:
  TimetableTest() { Measure(absl::Seconds(1)); }

  void Measure(absl::Duration step) {
    queue_.Measure({.kind = UnitKind::kStep, .lane = kLane, .in_turn = false}, 1, step);
  }
  // In whole seconds.
  int64_t End() {
    return absl::ToInt64Seconds(absl::Ceil(queue_.backlog().ends, absl::Seconds(1)));
  }

  latentd::testing::FakeClock clock_;
  Queue queue_{{}, clock_};
};

TEST_F(TimetableTest, FollowsWhoComesAndGoes) {
  ASSERT_OK(queue_.Admit({.pictures = {1}, .need = StepsOf(10)}));
  EXPECT_EQ(End(), 10);
  ASSERT_OK(queue_.Admit({.pictures = {2}, .need = StepsOf(20)}));
  EXPECT_EQ(End(), 30);
  queue_.Remove(1);
  EXPECT_EQ(End(), 20);
}

TEST_F(TimetableTest, FollowsWhatIsLeft) {
  ASSERT_OK(queue_.Admit({.pictures = {1}, .need = StepsOf(10)}));
  EXPECT_EQ(End(), 10);
  queue_.Update(1, StepsOf(4));
  EXPECT_EQ(End(), 4);
}

TEST_F(TimetableTest, FollowsWhatStepsTake) {
  ASSERT_OK(queue_.Admit({.pictures = {1}, .need = StepsOf(10)}));
  EXPECT_EQ(End(), 10);
  for (int i = 0; i < 100; ++i) Measure(absl::Seconds(3));
  EXPECT_EQ(End(), 30);
}

TEST_F(TimetableTest, FollowsWhoBegins) {
  ASSERT_OK(queue_.Admit({.pictures = {1}, .need = StepsOf(10)}));
  ASSERT_OK(queue_.Admit({.pictures = {2}, .need = StepsOf(10), .priority = 2}));
  EXPECT_EQ(queue_.Waiting().front().first, 2);
  EXPECT_THAT(queue_.Next()->pictures, ElementsAre(2));
  ASSERT_EQ(queue_.Waiting().size(), 1);
  EXPECT_EQ(queue_.Waiting().front().first, 1);
  EXPECT_EQ(queue_.Waiting().front().second.position, 1);
}

// Nothing but the time has passed: in turns the short one would be late now, and by deadline none.
TEST(ForesightTest, WhoSharesHowDependsOnTheTime) {
  Costs costs;
  costs.Measure(UnitKind::kStep, kLane, 1, absl::Seconds(1));
  const absl::Time start = absl::UnixEpoch();
  const Entry longer{.picture = 1,
                     .request = 1,
                     .need = StepsOf(20),
                     .due = absl::InfiniteFuture(),
                     .started = true};
  Entry shorter{.picture = 2, .request = 2, .need = StepsOf(5)};
  shorter.need.lane_places = 2;
  shorter.deadline = shorter.due = start + absl::Seconds(40);
  Foresight foresight({&longer, &shorter}, Callers(), costs);
  EXPECT_EQ(foresight.At(start).sharing, Sharing::kInTurns);
  EXPECT_EQ(foresight.At(start + absl::Seconds(30)).sharing, Sharing::kByDeadline);
  EXPECT_EQ(foresight.At(start).sharing, Sharing::kInTurns);
}

// The long one's deadline is kept whatever the order; but others may come and pass it.
TEST(ForesightTest, NobodyPassesWhoseDeadlineLeavesNoTimeForThat) {
  Costs costs;
  costs.Measure(UnitKind::kStep, kLane, 1, absl::Seconds(1));
  const absl::Time start = absl::UnixEpoch();
  Entry longer{.picture = 1, .request = 1, .need = StepsOf(20), .work = 20, .started = true};
  longer.deadline = start + absl::Seconds(40);
  Entry shorter{.picture = 2, .request = 2, .need = StepsOf(2), .work = 2};
  shorter.need.lane_places = 2;
  Foresight foresight({&longer, &shorter}, Callers(), costs);
  EXPECT_EQ(foresight.At(start).sharing, Sharing::kInTurns);
  EXPECT_EQ(foresight.At(start + absl::Seconds(10)).sharing, Sharing::kNonePasses);
  EXPECT_EQ(foresight.At(start + absl::Seconds(10)).outlooks[1].ends, absl::Seconds(22));
}

TEST(ForesightTest, WithoutDeadlinesTheOrderIsNotPlayed) {
  const Entry entry{.picture = 1, .request = 1, .need = StepsOf(10)};
  const Costs costs;
  Foresight foresight({&entry}, Callers(), costs);
  EXPECT_EQ(foresight.OrderAt(absl::UnixEpoch(), 0).order.size(), 1);
  EXPECT_EQ(foresight.OrderAt(absl::UnixEpoch(), 0).outlooks.size(), 0);
  EXPECT_EQ(foresight.At(absl::UnixEpoch()).outlooks.size(), 1);
}

}  // namespace
}  // namespace latentd::batching
