// The loop on a device that works beside it: the next unit is enqueued shortly before the device is
// done with the one that it is at, and the loop hears of requests and cancellations until then.
#include <gtest/gtest.h>

#include <atomic>
#include <memory>
#include <utility>

#include "core/engine/picture_loop.h"
#include "tests/core/engine/loop_rig.h"
#include "tests/support/separate_device.h"

namespace latentd::engine {
namespace {

using ::latentd::testing::FakeClock;
using ::latentd::testing::kLongestWait;
using ::latentd::testing::RecordingSink;
using ::latentd::testing::SeparateDevice;

constexpr int kTextRuns = 3;  // two encoders and the request part
constexpr absl::Duration kTook = absl::Milliseconds(20);

// What the host has enqueued, and where the device is, which finishes a run when a test says so.
class Runs {
 public:
  void Enqueued() ABSL_LOCKS_EXCLUDED(mutex_) {
    absl::MutexLock lock(&mutex_);
    ++enqueued_;
  }
  void Work() ABSL_LOCKS_EXCLUDED(mutex_) {
    absl::MutexLock lock(&mutex_);
    const auto may_end = [this, run = ++begun_]()
                             ABSL_SHARED_LOCKS_REQUIRED(mutex_) { return run <= finished_; };
    mutex_.Await(absl::Condition(&may_end));
  }

  // That so many are enqueued, and the device is at the one of that number, or behind it.
  void Await(int enqueued, int begun = 0) ABSL_LOCKS_EXCLUDED(mutex_) {
    absl::MutexLock lock(&mutex_);
    const auto are = [&]() ABSL_SHARED_LOCKS_REQUIRED(mutex_) {
      return enqueued_ >= enqueued && begun_ >= begun;
    };
    EXPECT_TRUE(mutex_.AwaitWithTimeout(absl::Condition(&are), kLongestWait));
  }
  void Finish(int more) ABSL_LOCKS_EXCLUDED(mutex_) {
    absl::MutexLock lock(&mutex_);
    finished_ += more;
  }

 private:
  absl::Mutex mutex_;
  int enqueued_ ABSL_GUARDED_BY(mutex_) = 0;
  int begun_ ABSL_GUARDED_BY(mutex_) = 0;
  int finished_ ABSL_GUARDED_BY(mutex_) = 0;
};

class LateUnitsTest : public ::testing::Test {
 protected:
  LateUnitsTest() {
    model_.on_run.enqueue = [this] { runs_.Enqueued(); };
    model_.on_run.work = [this] {
      runs_.Work();
      return absl::OkStatus();
    };
    model_.on_run.refuse_step = [this](int) {
      ++steps_;
      return absl::OkStatus();
    };
  }
  ~LateUnitsTest() override { runs_.Finish(1000); }

  std::shared_ptr<Job> Admit(const std::shared_ptr<RecordingSink>& sink, int steps) {
    auto job = model_.MakeJob(loop_, sink, /*pictures=*/1, steps, clock_);
    EXPECT_OK(loop_.Admit(job, 0));
    return job;
  }

  // The next unit, of so many runs, once `ahead` more are enqueued behind it.
  void RunUnit(int runs, int ahead) {
    runs_.Await(done_ + runs + ahead, done_ + 1);
    done_ += runs;
    clock_.Advance(kTook);
    runs_.Finish(runs);
  }

  // One picture, so that it is known what units take; and another one, until the device is at its
  // second step, which is the first that another unit need not be enqueued behind at once.
  std::shared_ptr<Job> ReachASecondStep(const std::shared_ptr<RecordingSink>& sink) {
    const auto first = std::make_shared<RecordingSink>();
    Admit(first, /*steps=*/2);
    RunUnit(kTextRuns, 1);
    RunUnit(1, 1);
    RunUnit(1, 1);
    RunUnit(1, 0);
    EXPECT_EQ(Only<Completed>(first->WaitForEnd()).size(), 1u);
    std::shared_ptr<Job> job = Admit(sink, /*steps=*/4);
    RunUnit(kTextRuns, 1);
    RunUnit(1, 1);
    runs_.Await(done_ + 1, done_ + 1);
    return job;
  }

  FakeClock clock_;
  Runs runs_;
  std::atomic<int> steps_ = 0;  // enqueued
  int done_ = 0;                // runs
  SeparateDevice device_{SeparateDevice::Begins::kAtOnce};
  LoopModel model_{device_};
  metrics::Registry registry_;
  EngineMetrics metrics_{registry_};
  PictureLoop loop_{{.units = {.enqueue_late = true}}, device_, metrics_, clock_};
};

TEST_F(LateUnitsTest, TheNextStepIsEnqueuedShortlyBeforeTheDeviceIsDone) {
  const auto sink = std::make_shared<RecordingSink>();
  ReachASecondStep(sink);
  EXPECT_EQ(steps_, 2 + 2);
  clock_.Advance(kTook - absl::Microseconds(500));
  runs_.Await(done_ + 2);
  runs_.Finish(1000);
  EXPECT_EQ(Only<Completed>(sink->WaitForEnd()).size(), 1u);
}

// The loop would hear of it when the device is done with the step, if it waited for that.
TEST_F(LateUnitsTest, WhoIsCancelledMeanwhileEndsAtOnce) {
  const auto sink = std::make_shared<RecordingSink>();
  const std::shared_ptr<Job> job = ReachASecondStep(sink);
  loop_.Cancel(job->handle);
  EXPECT_EQ(Only<Failed>(sink->WaitForEnd()).size(), 1u);  // the device is at its step
  EXPECT_EQ(steps_, 2 + 2);
}

}  // namespace
}  // namespace latentd::engine
