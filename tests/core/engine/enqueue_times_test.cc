// When the next unit is to be enqueued, by what the device is at.
#include <gtest/gtest.h>

#include <memory>

#include "core/base/threads/thread_watch.h"
#include "core/engine/loop/picture_loop.h"
#include "core/engine/loop/units_in_flight.h"
#include "tests/core/engine/loop_rig.h"
#include "tests/support/separate_device.h"

namespace latentd::engine {
namespace {

using ::latentd::testing::FakeClock;
using ::latentd::testing::RecordingSink;
using ::latentd::testing::SeparateDevice;

constexpr absl::Duration kExpected = absl::Milliseconds(20);
constexpr absl::Duration kMargin = absl::Milliseconds(1);  // EnqueueLead's

// One picture, whose units a device runs when a test waits for them.
class EnqueueTimesTest : public ::testing::Test {
 protected:
  static void SetUpTestSuite() {
    device_ = std::make_unique<SeparateDevice>();
    model_ = std::make_unique<LoopModel>(*device_);
  }
  static void TearDownTestSuite() {
    model_.reset();
    device_.reset();
  }
  ~EnqueueTimesTest() override { model_->on_run = {}; }

  std::shared_ptr<Job> JobOf(int steps) {
    return model_->MakeJob(loop_, std::make_shared<RecordingSink>(), /*pictures=*/1, steps, clock_);
  }
  void Enqueue(const std::shared_ptr<Job>& job, absl::Duration expected = kExpected) {
    JobPictures pictures = {{job, 0}};
    batching::Unit what = {.kind = pictures.front().picture().next, .expected = expected};
    EXPECT_OK(units_.Enqueue(what, pictures));
  }
  void Complete() {
    units_.WaitForOldest();
    units_.DropOldest();
  }
  // Time for which nothing need be enqueued behind the picture's next unit.
  absl::Duration HeldBackBehindNext(const std::shared_ptr<Job>& job,
                                    absl::Duration expected = kExpected) {
    Enqueue(job, expected);
    const absl::Duration held_back = units_.NextEnqueueTime() - clock_.Monotonic();
    Complete();
    return held_back;
  }
  void SkipUnits(const std::shared_ptr<Job>& job, int count) {
    for (int i = 0; i < count; ++i) HeldBackBehindNext(job);
  }

  static inline std::unique_ptr<SeparateDevice> device_;
  static inline std::unique_ptr<LoopModel> model_;
  FakeClock clock_;
  metrics::Registry registry_;
  EngineMetrics metrics_{registry_};
  PictureLoop loop_{{}, *device_, metrics_, clock_};  // numbers the jobs, and runs nothing
  ThreadWatch watch_{"loop", clock_};
  UnitsInFlight units_{{.enqueue_late = true}, *device_, watch_, clock_};
};

TEST_F(EnqueueTimesTest, OnlyBehindAStepOrADecodeTheNextCanWait) {
  const std::shared_ptr<Job> job = JobOf(/*steps=*/4);
  EXPECT_EQ(HeldBackBehindNext(job), absl::ZeroDuration());  // text
  EXPECT_EQ(HeldBackBehindNext(job), absl::ZeroDuration());  // the first of the graph
  EXPECT_EQ(HeldBackBehindNext(job), kExpected - kMargin);
  EXPECT_EQ(HeldBackBehindNext(job), kExpected - kMargin);
  EXPECT_EQ(HeldBackBehindNext(job), absl::ZeroDuration());  // the last: its decode goes first
  ASSERT_EQ(job->pictures[0]->next, batching::UnitKind::kDecode);
  EXPECT_EQ(HeldBackBehindNext(job), kExpected - kMargin);
}

TEST_F(EnqueueTimesTest, NothingWaitsBehindAStepThatNobodyKnowsTheTimeOf) {
  const std::shared_ptr<Job> job = JobOf(/*steps=*/4);
  SkipUnits(job, 2);
  EXPECT_EQ(HeldBackBehindNext(job, absl::ZeroDuration()), absl::ZeroDuration());
}

TEST_F(EnqueueTimesTest, TwoUnitsAreAllThatTheDeviceIsGiven) {
  const std::shared_ptr<Job> job = JobOf(/*steps=*/4);
  EXPECT_EQ(units_.NextEnqueueTime(), absl::InfinitePast());
  Enqueue(job);
  Enqueue(job);
  EXPECT_EQ(units_.NextEnqueueTime(), absl::InfiniteFuture());
  Complete();
  Complete();
}

// The device is done in time, and has to wait for what the host is still at.
TEST_F(EnqueueTimesTest, WhatEnqueuingTookIsTheLeadFromThenOn) {
  const std::shared_ptr<Job> job = JobOf(/*steps=*/5);
  SkipUnits(job, 2);
  Enqueue(job);
  constexpr absl::Duration kLate = absl::Milliseconds(2), kEnqueuing = absl::Milliseconds(5);
  clock_.Advance(kExpected - kMargin + kLate);
  model_->on_run.enqueue = [&] {
    units_.oldest().unit.done->Wait().IgnoreError();
    clock_.Advance(kEnqueuing);
  };
  const absl::Time done = clock_.Monotonic();
  Enqueue(job);
  model_->on_run.enqueue = nullptr;
  Complete();
  // From when it was due, less what the device took longer than was expected.
  const absl::Duration lead = kMargin + kLate + kEnqueuing - (kLate - kMargin);
  EXPECT_EQ(units_.NextEnqueueTime(), done + kExpected - lead);
  Complete();
}

}  // namespace
}  // namespace latentd::engine
