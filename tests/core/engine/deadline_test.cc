// Deadlines of requests that wait and run, and the forecasts by which they are admitted.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <algorithm>
#include <memory>
#include <utility>
#include <vector>

#include "core/base/errors/error_details.h"
#include "core/engine/loop/picture_loop.h"
#include "tests/core/engine/loop_rig.h"

namespace latentd::engine {
namespace {

using ::latentd::testing::RecordingSink;

class DeadlineTest : public LoopTest {};

TEST_F(DeadlineTest, ARequestWhoseDeadlinePassesStopsAtItsNextStep) {
  PictureLoop loop({}, device::Host(), metrics_, clock_);
  const auto sink = std::make_shared<WatchedSink>([&](const Event& event) {
    const auto* progress = std::get_if<Progress>(&event);
    if (progress != nullptr && progress->step == 3) clock_.Advance(absl::Seconds(20));
  });
  GenerateSpec spec = SmallSpec(/*steps=*/150);
  spec.deadline = clock_.Monotonic() + absl::Seconds(10);
  ASSERT_OK(loop.Admit(model_->MakeJob(loop, sink, std::move(spec), clock_), 0));
  const auto failed = Only<Failed>(sink->WaitForEnd());
  ASSERT_EQ(failed.size(), 1u);
  EXPECT_TRUE(absl::IsDeadlineExceeded(failed[0].status)) << failed[0].status;
  EXPECT_LE(Count(metrics::kSteps), 5);  // one or two more were with the device
  EXPECT_EQ(MetricOf(registry_, metrics::kDeadlineMisses, "running"), 1);
  EXPECT_EQ(MetricOf(registry_, metrics::kRequestsCancelled, "running"), 0);
  EXPECT_EQ(loop.state_bytes(), 0);
}

// It never begins, and the requests behind it move up, and get an event.
TEST_F(DeadlineTest, ARequestWhoseDeadlinePassesWhileItWaitsLeavesTheQueue) {
  PictureLoop loop({}, device::Host(), metrics_, clock_);
  const auto late = std::make_shared<RecordingSink>();
  const auto behind = std::make_shared<RecordingSink>();
  const auto first = std::make_shared<RecordingSink>();
  bool submitted = false;
  model_->on_run.enqueue = [&] {
    if (std::exchange(submitted, true)) return;
    GenerateSpec spec = SmallSpec();
    spec.deadline = clock_.Monotonic() + absl::Seconds(10);
    ASSERT_OK(loop.Admit(model_->MakeJob(loop, late, std::move(spec), clock_), 0));
    ASSERT_OK(loop.Admit(Request(loop, behind), 0));
    clock_.Advance(absl::Seconds(20));
  };
  ASSERT_OK(loop.Admit(Request(loop, first), 0));
  const auto failed = Only<Failed>(late->WaitForEnd());
  ASSERT_EQ(failed.size(), 1u);
  EXPECT_TRUE(absl::IsDeadlineExceeded(failed[0].status));
  EXPECT_TRUE(Only<Started>(late->events()).empty());
  EXPECT_EQ(MetricOf(registry_, metrics::kDeadlineMisses, "queued"), 1);
  const std::vector<Event> events = behind->WaitForEnd();
  EXPECT_EQ(Only<Completed>(events).size(), 1u);
  std::vector<int> positions;
  for (const Queued& queued : Only<Queued>(events)) positions.push_back(queued.position);
  EXPECT_EQ(positions.front(), 2);
  EXPECT_THAT(positions, ::testing::Contains(1));
  EXPECT_TRUE(std::is_sorted(positions.rbegin(), positions.rend()));
}

// The server cancels so when gRPC's timer fires.
TEST_F(DeadlineTest, ACancellationAtTheDeadlineIsTheDeadline) {
  PictureLoop loop({}, device::Host(), metrics_, clock_);
  std::shared_ptr<Job> job;
  const auto sink = std::make_shared<WatchedSink>([&](const Event& event) {
    const auto* progress = std::get_if<Progress>(&event);
    if (progress == nullptr || progress->step != 3) return;
    clock_.Advance(absl::Milliseconds(9950));
    loop.Cancel(job->handle);
  });
  GenerateSpec spec = SmallSpec(/*steps=*/150);
  spec.deadline = clock_.Monotonic() + absl::Seconds(10);
  job = model_->MakeJob(loop, sink, std::move(spec), clock_);
  ASSERT_OK(loop.Admit(job, 0));
  const auto failed = Only<Failed>(sink->WaitForEnd());
  ASSERT_EQ(failed.size(), 1u);
  EXPECT_TRUE(absl::IsDeadlineExceeded(failed[0].status));
}

// A device whose every run takes a second by the clock.
TEST_F(DeadlineTest, ForecastsWhatRequestsTakeAndRefusesWhatWouldBeLate) {
  PictureLoop loop({}, device::Host(), metrics_, clock_);
  model_->on_run.work = [&] {
    clock_.Advance(absl::Seconds(1));
    return absl::OkStatus();
  };
  EXPECT_EQ(Only<Completed>(RunOn(loop)).size(), 1u);  // the times of units are known now
  EXPECT_EQ(HistogramOf(registry_, metrics::kPredictionRatio).first, 0);
  const auto sink = std::make_shared<RecordingSink>();
  ASSERT_OK(loop.Admit(Request(loop, sink, /*pictures=*/1, /*steps=*/20), 0));
  const auto queued = Only<Queued>(sink->events());
  ASSERT_FALSE(queued.empty());
  EXPECT_EQ(queued[0].wait, absl::ZeroDuration());
  EXPECT_GE(queued[0].total, absl::Seconds(20));
  GenerateSpec spec = SmallSpec(/*steps=*/20);
  spec.deadline = clock_.Monotonic() + absl::Seconds(15);
  const absl::Status refused =
      loop.Admit(model_->MakeJob(loop, std::make_shared<RecordingSink>(), spec, clock_), 0);
  EXPECT_EQ(GetReason(refused), "PREDICTED_OVERRUN") << refused;
  const auto completed = Only<Completed>(sink->WaitForEnd());
  ASSERT_EQ(completed.size(), 1u);
  const double ratio = absl::FDivDuration(completed[0].timings.total, queued[0].total);
  EXPECT_GT(ratio, 0.5);
  EXPECT_LT(ratio, 2);
  EXPECT_EQ(HistogramOf(registry_, metrics::kPredictionRatio).first, 1);
  EXPECT_EQ(HistogramOf(registry_, metrics::kFirstStepSeconds).first, 2);
}

// Nothing wakes the loop but the deadline: its graphs never come.
TEST_F(DeadlineTest, ARequestThatWaitsForItsGraphsEndsAtItsDeadline) {
  PictureLoop loop({}, device::Host(), metrics_, SystemClock());
  const auto sink = std::make_shared<RecordingSink>();
  // A job takes its time to be made, on a machine that is slow or busy.
  const absl::Time begin = SystemClock().Monotonic();
  model_->MakeJob(loop, sink, SmallSpec(), SystemClock());
  const absl::Duration making = SystemClock().Monotonic() - begin;
  GenerateSpec spec = SmallSpec();
  spec.deadline = SystemClock().Monotonic() + 4 * making + absl::Seconds(2);
  const std::shared_ptr<Job> job = model_->MakeJob(loop, sink, std::move(spec), SystemClock());
  job->pictures.clear();
  ASSERT_OK(loop.Admit(job, 0));
  const auto failed = Only<Failed>(sink->WaitForEnd());
  ASSERT_EQ(failed.size(), 1u);
  EXPECT_TRUE(absl::IsDeadlineExceeded(failed[0].status));
}

}  // namespace
}  // namespace latentd::engine
