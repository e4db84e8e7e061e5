#include "core/base/threads/thread_watch.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <functional>
#include <optional>
#include <utility>

#include "tests/support/fake_clock.h"

namespace latentd {
namespace {

using ::testing::ElementsAre;
using ::testing::Field;
using ::testing::IsEmpty;

using Activity = ThreadWatch::Activity;

class ThreadWatchTest : public ::testing::Test {
 protected:
  testing::FakeClock clock_;
  ThreadWatch watch_{"loop", clock_};
};

TEST_F(ThreadWatchTest, HasNothingToSayOfAThreadThatWaitsForWork) {
  clock_.Advance(absl::Hours(100));
  EXPECT_FALSE(watch_.Overdue().has_value());
  const Activity at(watch_, "completing a unit");
  EXPECT_FALSE(watch_.Overdue().has_value());
}

TEST_F(ThreadWatchTest, GivesEachActivityAMinuteAndNamesTheOneThatTakesLonger) {
  {
    const Activity at(watch_, "completing a unit");
    clock_.Advance(absl::Minutes(1) - absl::Milliseconds(1));
    EXPECT_FALSE(watch_.Overdue().has_value());
    clock_.Advance(absl::Seconds(30) + absl::Milliseconds(1));
    const OverdueThread overdue = watch_.Overdue().value();
    EXPECT_EQ(overdue.name, "loop");
    EXPECT_EQ(overdue.activity, "completing a unit");
    EXPECT_EQ(overdue.running, absl::Seconds(90));
    EXPECT_EQ(overdue.limit, absl::Minutes(1));
  }
  EXPECT_FALSE(watch_.Overdue().has_value());
}

TEST_F(ThreadWatchTest, BeginsAnewWithEachActivityAndAfterIt) {
  const Activity outer(watch_, "outer");
  clock_.Advance(absl::Seconds(59));
  {
    const Activity inner(watch_, "inner");
    clock_.Advance(absl::Seconds(59));
    EXPECT_FALSE(watch_.Overdue().has_value());
    clock_.Advance(absl::Seconds(1));
    EXPECT_EQ(watch_.Overdue().value().activity, "inner");
  }
  clock_.Advance(absl::Seconds(59));
  EXPECT_FALSE(watch_.Overdue().has_value());
  clock_.Advance(absl::Seconds(1));
  EXPECT_EQ(watch_.Overdue().value().activity, "outer");
}

TEST_F(ThreadWatchTest, IsIdleInTheMiddleOfAnActivity) {
  const Activity at(watch_, "looking for work");
  const Activity waits(watch_, ThreadWatch::kIdle);
  clock_.Advance(absl::Hours(100));
  EXPECT_FALSE(watch_.Overdue().has_value());
}

// Lets something happen when it is asked for the time next, before it says it.
class EventfulClock : public Clock {
 public:
  absl::Time Monotonic() const override {
    if (const auto event = std::exchange(next_event, nullptr)) event();
    return now;
  }
  absl::Time Wall() const override { return now; }

  mutable std::function<void()> next_event;
  absl::Time now = absl::UnixEpoch() + absl::Hours(1);
};

TEST(ThreadWatchOrderTest, AnActivityIsNotOverdueWhileItBegins) {
  EventfulClock clock;
  ThreadWatch watch("loop", clock);
  std::optional<OverdueThread> seen = OverdueThread();
  clock.next_event = [&] { seen = watch.Overdue(); };
  const Activity at(watch, "looking for work");
  EXPECT_FALSE(seen.has_value());
}

TEST(ThreadWatchOrderTest, AnActivityIsNotOverdueWhereItsPredecessorEndsWhileSomebodyAsks) {
  EventfulClock clock;
  ThreadWatch watch("loop", clock);
  std::optional<Activity> at(std::in_place, watch, "looking for work");
  clock.next_event = [&] {
    at.reset();
    clock.now += absl::Hours(1);
    at.emplace(watch, "looking for work");
  };
  EXPECT_FALSE(watch.Overdue().has_value());
}

TEST_F(ThreadWatchTest, NamesEveryThreadThatIsOverdue) {
  ThreadWatches watches(clock_);
  ThreadWatch& loop = watches.Add("loop");
  ThreadWatch& first = watches.Add("encoder");
  ThreadWatch& second = watches.Add("encoder");
  const Activity looks(loop, "looking for work");
  const Activity encodes(first, "encoding a picture");
  clock_.Advance(ThreadWatch::kLimit);
  const Activity encodes_too(second, "encoding a picture");
  EXPECT_THAT(watches.Overdue(), ElementsAre(Field(&OverdueThread::name, "loop"),
                                             Field(&OverdueThread::name, "encoder")));
  const Activity waits(loop, ThreadWatch::kIdle);
  const Activity waits_too(first, ThreadWatch::kIdle);
  EXPECT_THAT(watches.Overdue(), IsEmpty());
}

}  // namespace
}  // namespace latentd
