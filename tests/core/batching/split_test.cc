// Steps that are split: another device evaluates one of their two rows.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <cstdint>
#include <optional>
#include <vector>

#include "absl/algorithm/container.h"
#include "core/base/errors/error_details.h"
#include "core/batching/queue.h"
#include "tests/support/fake_clock.h"
#include "tests/support/status_matchers.h"

namespace latentd::batching {
namespace {

using ::testing::ElementsAre;
using ::testing::SizeIs;

constexpr Lane kSplitLane{.width = 64, .height = 64};
constexpr uint64_t kBoth = 3, kAll = 7;
constexpr absl::Duration kAlone = absl::Seconds(2), kShared = absl::Seconds(1);

// A picture whose step of two rows is next, with which these devices may help.
Need StepOf(uint64_t helpers = kBoth) {
  return {.kind = UnitKind::kStep,
          .lane = kSplitLane,
          .lane_rows = 4,
          .joined = true,
          .helpers = helpers,
          .ahead = {.stages = {{{kSplitLane, 0, {{.count = 10, .rows = 2}}}}},
                    .after = {UnitKind::kDecode}}};
}

class SplitTest : public ::testing::Test {
 protected:
  // `measured`: so often have steps without help been, before it begins.
  explicit SplitTest(Split split = Split::kAuto, int devices = 2, int measured = 4)
      : queue_({.devices = devices, .split = split}, clock_) {
    Learn(measured, kAlone, /*helper=*/-1);
  }

  // A picture that the device has begun: it has taken a step.
  PictureId Begin(int device, const Need& need = StepOf()) {
    const PictureId picture = next_++;
    EXPECT_OK(
        queue_.Admit({.pictures = {picture}, .need = need, .devices = uint64_t{1} << device}));
    Step(device);
    return picture;
  }
  // The device's next step.
  Unit Step(int device = 0) {
    const std::optional<Unit> step = queue_.Next(true, device);
    EXPECT_TRUE(step.has_value() && step->kind == UnitKind::kStep);
    return step.value_or(Unit());
  }
  int HelperOfNext(int device = 0) { return Step(device).helper; }
  // So many steps had that helper, or none, and took that.
  void Learn(int times, absl::Duration took, int helper, int rows = 2, Lane lane = kSplitLane) {
    for (int i = 0; i < times; ++i) {
      queue_.Measure({.kind = UnitKind::kStep, .lane = lane, .helper = helper}, rows, took);
    }
  }

  latentd::testing::FakeClock clock_;
  Queue queue_;
  PictureId next_ = 1;
};

class NeverSplitTest : public SplitTest {
 protected:
  NeverSplitTest() : SplitTest(Split::kNever) {}
};
class AlwaysSplitTest : public SplitTest {
 protected:
  AlwaysSplitTest() : SplitTest(Split::kAlways, /*devices=*/2, /*measured=*/0) {}
};
class NewSplitTest : public SplitTest {
 protected:
  NewSplitTest() : SplitTest(Split::kAuto, /*devices=*/2, /*measured=*/0) {}
};
class SplitOfThreeTest : public SplitTest {
 protected:
  SplitOfThreeTest() : SplitTest(Split::kAuto, /*devices=*/3) {}
};

TEST_F(SplitTest, ADeviceWithoutWorkHelps) {
  Begin(0);
  EXPECT_EQ(HelperOfNext(), 1);
}

TEST_F(NeverSplitTest, NoneHelps) {
  Begin(0);
  EXPECT_EQ(HelperOfNext(), -1);
}

TEST_F(SplitTest, ADeviceHelpsThatMayAndNoOther) {
  const PictureId picture = Begin(0, StepOf(/*helpers=*/0));
  EXPECT_EQ(HelperOfNext(), -1);
  queue_.Update(picture, StepOf(/*helpers=*/1));  // itself
  EXPECT_EQ(HelperOfNext(), -1);
}

// Decided step by step: rows go back when there is other work, and come again.
TEST_F(SplitTest, ADeviceWithWorkOfItsOwnHelpsNone) {
  Begin(0);
  EXPECT_EQ(HelperOfNext(), 1);
  const PictureId other = Begin(1);
  EXPECT_EQ(HelperOfNext(), -1);
  queue_.Update(other, {.kind = UnitKind::kWait, .lane = kSplitLane});  // it is being decoded
  EXPECT_EQ(HelperOfNext(), -1);
  queue_.Remove(other);
  EXPECT_EQ(HelperOfNext(), 1);
}

TEST_F(AlwaysSplitTest, ADeviceWithWorkOfItsOwnHelpsToo) {
  Begin(0);
  Begin(1);
  EXPECT_EQ(HelperOfNext(0), 1);
  EXPECT_EQ(HelperOfNext(1), 0);
}

// One that waits for its graphs, until shortly before these are ready.
TEST_F(SplitTest, ADeviceHelpsUntilItsNextPictureIsForeseen) {
  Learn(4, kShared, /*helper=*/1);
  Begin(0);
  Need cold{.kind = UnitKind::kWait, .lane = kSplitLane};
  cold.ready = clock_.Monotonic() + kShared + absl::Seconds(1);
  ASSERT_OK(queue_.Admit({.pictures = {100}, .need = cold, .devices = 2}));
  EXPECT_EQ(HelperOfNext(), 1);
  clock_.Advance(absl::Seconds(1));
  EXPECT_EQ(HelperOfNext(), -1);
}

TEST_F(SplitTest, StepsOfSeveralPicturesAreNotSplit) {
  Begin(0);
  Begin(0);
  const Unit step = Step();
  EXPECT_THAT(step.pictures, SizeIs(2));
  EXPECT_EQ(step.helper, -1);
}

TEST_F(SplitTest, AStepThatIsSplitIsExpectedToTakeWhatSuchTook) {
  Begin(0);
  EXPECT_EQ(Step().expected, kAlone);  // no row alone has been measured
  Learn(4, kShared, /*helper=*/1);
  EXPECT_EQ(Step().expected, kShared);
}

TEST_F(SplitTest, ForecastsKnowOfNoHelp) {
  Begin(0);
  const absl::Duration before = queue_.backlog().ends;
  Learn(4, kShared, /*helper=*/1);
  EXPECT_EQ(queue_.backlog().ends, before);
}

TEST_F(SplitTest, WhatTakesLongerIsTriedNoMoreButAtTimes) {
  Begin(0);
  Learn(3, kAlone * 2, /*helper=*/1);
  EXPECT_EQ(HelperOfNext(), 1);  // too little is known
  Learn(1, kAlone * 2, /*helper=*/1);
  int split = 0;
  for (int i = 0; i < 1000; ++i) split += HelperOfNext() == 1 ? 1 : 0;
  EXPECT_EQ(split, 10);
  Learn(20, kShared, /*helper=*/1);
  EXPECT_EQ(HelperOfNext(), 1);
}

// Steps without help may have become faster.
TEST_F(SplitTest, WhatTakesLessIsLeftOutAtTimes) {
  Learn(4, kShared, /*helper=*/1);
  Begin(0);
  int split = 0;
  for (int i = 0; i < 1000; ++i) split += HelperOfNext() == 1 ? 1 : 0;
  EXPECT_EQ(split, 990);
  Learn(20, kShared / 2, /*helper=*/-1);
  EXPECT_EQ(HelperOfNext(), -1);
}

// Steps of more rows or of another size say too little of what one takes without help.
TEST_F(NewSplitTest, NoneHelpsUntilStepsWithoutHelpAreMeasured) {
  Begin(0);
  EXPECT_EQ(HelperOfNext(), -1);
  Learn(4, kAlone, /*helper=*/-1, /*rows=*/4);
  Learn(4, kAlone, /*helper=*/-1, /*rows=*/2, {.width = 128, .height = 64});
  Learn(3, kAlone, /*helper=*/-1);
  EXPECT_EQ(HelperOfNext(), -1);
  Learn(1, kAlone, /*helper=*/-1);
  EXPECT_EQ(HelperOfNext(), 1);
}

TEST_F(AlwaysSplitTest, WhatTakesLongerIsSplitToo) {
  Learn(4, kAlone, /*helper=*/-1);
  Learn(4, kAlone * 2, /*helper=*/1);
  Begin(0);
  EXPECT_EQ(HelperOfNext(), 1);
}

TEST_F(SplitOfThreeTest, ADeviceHelpsOneOther) {
  Begin(0, StepOf(kAll));
  const PictureId second = Begin(1, StepOf(kAll));
  EXPECT_EQ(HelperOfNext(0), -1);
  EXPECT_EQ(HelperOfNext(1), 2);
  EXPECT_EQ(HelperOfNext(0), -1);
  queue_.Remove(second);
  EXPECT_EQ(queue_.Next(true, 1), std::nullopt);
  EXPECT_EQ(HelperOfNext(0), 1);
}

// Its step was split, and it has left before its device has asked for more.
TEST_F(SplitOfThreeTest, ADeviceHelpsNoPictureThatHasLeft) {
  const PictureId first = Begin(0, StepOf(/*helpers=*/4));
  ASSERT_EQ(HelperOfNext(0), 2);
  Begin(1, StepOf(/*helpers=*/4));
  EXPECT_EQ(HelperOfNext(1), -1);
  queue_.Remove(first);
  EXPECT_EQ(HelperOfNext(1), 2);
}

TEST_F(AlwaysSplitTest, ADeviceThatHasFailedHelpsNone) {
  Begin(0);
  queue_.Lose(1);
  EXPECT_EQ(HelperOfNext(), -1);
}

// Another server takes them, or this one when it is started again.
TEST_F(NeverSplitTest, MoreImagesThanTheDevicesLeftTakeFindTheQueueFull) {
  std::vector<PictureId> ids(queue_.places());
  absl::c_iota(ids, 200);
  queue_.Lose(1);
  const auto admit = [&] { return queue_.Admit({.pictures = ids, .need = StepOf()}).status(); };
  EXPECT_EQ(GetReason(admit()), "QUEUE_FULL");
  ids.push_back(100);
  EXPECT_TRUE(absl::IsInvalidArgument(admit()));
}

// It keeps what it has begun, until that is removed, and gets no unit of it.
TEST_F(NeverSplitTest, ADeviceThatHasFailedRunsNothing) {
  const PictureId begun = Begin(1);
  ASSERT_OK(queue_.Admit({.pictures = {100}, .need = StepOf(), .devices = 3}));
  ASSERT_OK(queue_.Admit({.pictures = {101}, .need = StepOf(), .devices = 2}));
  const int places = queue_.places();
  queue_.Lose(1);
  queue_.Lose(1);
  EXPECT_EQ(queue_.places(), places / 2);
  EXPECT_FALSE(queue_.CanRun(true, 1));
  EXPECT_EQ(queue_.Next(true, 1), std::nullopt);
  EXPECT_THAT(Step(0).pictures, ElementsAre(100));
  queue_.Remove(begun);
  EXPECT_EQ(queue_.backlog(1).pictures, 0);
  queue_.Remove(100);
  EXPECT_FALSE(queue_.CanRun(true, 0));  // 101 was the failed one's alone
  queue_.Move({101}, 0);
  EXPECT_THAT(Step(0).pictures, ElementsAre(101));
  queue_.Move({101}, 1);  // it has begun
  EXPECT_TRUE(queue_.CanRun(true, 0));
}

}  // namespace
}  // namespace latentd::batching
