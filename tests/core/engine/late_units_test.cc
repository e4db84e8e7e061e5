// The loop on a device that works beside it: the next unit is enqueued shortly before the device is
// done with the one that it is at, and the loop hears of requests and cancellations until then.
#include <gtest/gtest.h>

#include <atomic>
#include <memory>
#include <thread>
#include <utility>
#include <vector>

#include "absl/synchronization/notification.h"
#include "core/engine/local_engine.h"
#include "core/engine/loop/picture_loop.h"
#include "core/image/encode.h"
#include "tests/core/engine/loop_rig.h"
#include "tests/golden/video_checkpoint.h"
#include "tests/support/separate_device.h"

namespace latentd::engine {
namespace {

using ::latentd::testing::FakeClock;
using ::latentd::testing::kLongestWait;
using ::latentd::testing::RecordingSink;
using ::latentd::testing::SeparateDevice;

constexpr int kTextRuns = 3;  // two encoders and the request part
constexpr absl::Duration kTook = absl::Milliseconds(20);

// Runs that the host has enqueued, and the device's place in them; a test ends each run.
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

  // Waits until so many are enqueued, and the device is at the one of that number, or behind it.
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

// Runs on a device whose units all take as long, by the clock, and end when a test says
// so.
class WatchedRuns {
 public:
  WatchedRuns(FakeClock& clock, absl::Duration took) : clock_(clock), took_(took) {}
  virtual ~WatchedRuns() = default;

  virtual void Admit(const std::shared_ptr<RecordingSink>& sink, int steps) = 0;

  // From now on. REQUIRES: nothing runs.
  void Watch(OnRun& on_run) {
    on_run.enqueue = [this] { runs_.Enqueued(); };
    on_run.work = [this] {
      runs_.Work();
      return absl::OkStatus();
    };
    on_run.refuse_step = [this](int) {
      ++steps_;
      return absl::OkStatus();
    };
  }

  // One picture, so that it is known what units take; and another one, until the device is at its
  // second step, which is the first that another unit need not be enqueued behind at once.
  void ReachASecondStep(const std::shared_ptr<RecordingSink>& sink) {
    const auto first = std::make_shared<RecordingSink>();
    Admit(first, /*steps=*/2);
    RunUnit(kTextRuns, 1);
    RunUnit(1, 1);
    RunUnit(1, 1);
    RunUnit(1, 0);
    EXPECT_EQ(Only<Completed>(first->WaitForEnd()).size(), 1u);
    Admit(sink, /*steps=*/4);
    RunUnit(kTextRuns, 1);
    RunUnit(1, 1);
    runs_.Await(done_ + 1, done_ + 1);
  }

  void AwaitOneMore() { runs_.Await(done_ + 2); }
  void FinishAll() { runs_.Finish(1000); }
  int steps() const { return steps_; }  // enqueued

 protected:
  // The next unit, of so many runs, once `ahead` more are enqueued behind it.
  void RunUnit(int runs, int ahead) {
    runs_.Await(done_ + runs + ahead, done_ + 1);
    done_ += runs;
    clock_.Advance(took_);
    runs_.Finish(runs);
  }
  // Waits until the device is at the next unit, and so many runs are enqueued from it on.
  void AwaitUnit(int enqueued) { runs_.Await(done_ + enqueued, done_ + 1); }

 private:
  FakeClock& clock_;
  const absl::Duration took_;
  Runs runs_;
  std::atomic<int> steps_ = 0;
  int done_ = 0;  // runs
};

class LateUnitsTest : public ::testing::Test, protected WatchedRuns {
 protected:
  LateUnitsTest() : WatchedRuns(clock_, kTook) { Watch(model_.on_run); }
  ~LateUnitsTest() override { FinishAll(); }

  void Admit(const std::shared_ptr<RecordingSink>& sink, int steps) override {
    job_ = model_.MakeJob(loop_, sink, /*pictures=*/1, steps, clock_);
    EXPECT_OK(loop_.Admit(job_, 0));
  }

  FakeClock clock_;
  SeparateDevice device_{SeparateDevice::Begins::kAtOnce};
  LoopModel model_{device_};
  metrics::Registry registry_;
  EngineMetrics metrics_{registry_};
  PictureLoop loop_{{.units = {.enqueue_late = true}}, device_, metrics_, clock_};
  std::shared_ptr<Job> job_;  // the last admitted one
};

TEST_F(LateUnitsTest, TheNextStepIsEnqueuedShortlyBeforeTheDeviceIsDone) {
  const auto sink = std::make_shared<RecordingSink>();
  ReachASecondStep(sink);
  EXPECT_EQ(steps(), 2 + 2);
  clock_.Advance(kTook - absl::Microseconds(500));
  AwaitOneMore();
  FinishAll();
  EXPECT_EQ(Only<Completed>(sink->WaitForEnd()).size(), 1u);
}

// The loop would hear of it when the device is done with the step, if it waited for that.
TEST_F(LateUnitsTest, WhoIsCancelledMeanwhileEndsAtOnce) {
  const auto sink = std::make_shared<RecordingSink>();
  ReachASecondStep(sink);
  loop_.Cancel(job_->handle);
  EXPECT_EQ(Only<Failed>(sink->WaitForEnd()).size(), 1u);  // the device is at its step
  EXPECT_EQ(steps(), 2 + 2);
}

// One that says what it has.
class OwnMemory : public SeparateDevice {
 public:
  OwnMemory() : SeparateDevice(Begins::kAtOnce) {}
  bool SharesHostMemory() const override { return false; }
};

Config QuietConfig() {
  Config config = SmallConfig();
  config.load_waits_for_shared_steps = true;  // or their first runs would be counted
  return config;
}

// An engine whose units take so long that a busy thread can be told from one that waits.
class LateEngineTest : public ::testing::Test, protected WatchedRuns {
 protected:
  LateEngineTest() : WatchedRuns(clock_, kLong) {
    EXPECT_OK(engine_.Load());
    Watch(on_run_);
  }
  ~LateEngineTest() override { FinishAll(); }

  void Admit(const std::shared_ptr<RecordingSink>& sink, int steps) override {
    const absl::StatusOr<uint64_t> handle = engine_.Submit(SmallSpec(steps), sink);
    EXPECT_OK(handle);
    handle_ = handle.value_or(0);
  }

  // Until the loop has nothing to do: each time it waits, or has come further.
  void AwaitIdleLoop() {
    for (int i = 0; i < 20; ++i) {
      clock_.Advance(ThreadWatch::kLimit);
      while (!engine_.FindHangs().threads.empty()) std::this_thread::yield();
    }
  }

  static constexpr absl::Duration kLong = absl::Hours(1);
  FakeClock clock_;
  OwnMemory device_;
  OnRun on_run_;
  LocalEngine engine_{QuietConfig(), std::make_unique<RunWatch>(on_run_, device_), clock_};
  uint64_t handle_ = 0;  // the last admitted request's
};

TEST_F(LateEngineTest, EnqueuesLateOnADeviceWithMemoryOfItsOwn) {
  absl::Notification first_is_completed;
  const auto sink = std::make_shared<WatchedSink>([&](const Event& event) {
    const auto* progress = std::get_if<Progress>(&event);
    const bool is_step = progress != nullptr && progress->stage == Stage::kSteps;
    if (is_step && progress->step == 1) first_is_completed.Notify();
  });
  ReachASecondStep(sink);
  first_is_completed.WaitForNotification();
  AwaitIdleLoop();
  EXPECT_EQ(steps(), 2 + 2);
  clock_.Advance(kLong);
  FinishAll();
  engine_.Cancel(handle_);  // or the loop would wait for as long as the clock has said
  sink->WaitForEnd();
}

// An engine whose videos are decoded in parts.
class LateVideoTest : public ::testing::Test, protected WatchedRuns {
 protected:
  LateVideoTest() : WatchedRuns(clock_, kTook) {
    EXPECT_OK(engine_.Load());
    Watch(on_run_);
  }
  ~LateVideoTest() override { FinishAll(); }

  static Config InParts() {
    Config config = QuietConfig();
    config.rows = {1, 2};
    config.models = {{.name = "video",
                      .checkpoint = golden::VideoCheckpoint(),
                      .buckets = {{64, 64, 5}},
                      .draws_videos = true}};
    config.pixels_in_parts = 0;
    return config;
  }

  // A video.
  void Admit(const std::shared_ptr<RecordingSink>& sink, int steps) override {
    image::Image image{40, 30, std::vector<uint8_t>(size_t{40} * 30 * 3, 90)};
    GenerateSpec spec;
    spec.picture.num_inference_steps = steps;
    spec.picture.video.emplace();
    spec.inputs = std::make_shared<const pipeline::Inputs>(
        pipeline::Inputs{.image = image::Encode(image, {}, /*parameters=*/"").value()});
    EXPECT_OK(engine_.Submit(std::move(spec), sink));
  }

  FakeClock clock_;
  OwnMemory device_;
  OnRun on_run_;
  LocalEngine engine_{InParts(), std::make_unique<RunWatch>(on_run_, device_), clock_};
};

// It comes while the device is at the first part, and has its text encoded behind that.
TEST_F(LateVideoTest, AnImageGoesBeforeTheNextPartOfTheDecoder) {
  constexpr int kImageRuns = 3;  // the image encoder, and the request part of two rows
  const auto first = std::make_shared<RecordingSink>();
  Admit(first, /*steps=*/2);
  RunUnit(kImageRuns, 1);
  for (int unit = 0; unit < 5; ++unit) RunUnit(1, 1);  // encode, steps, parts
  RunUnit(1, 0);
  EXPECT_EQ(Only<Completed>(first->WaitForEnd()).size(), 1u);
  const auto video = std::make_shared<RecordingSink>(), image = std::make_shared<RecordingSink>();
  Admit(video, /*steps=*/2);
  RunUnit(kImageRuns, 1);
  for (int unit = 0; unit < 3; ++unit) RunUnit(1, 1);
  AwaitUnit(1);
  EXPECT_OK(engine_.Submit(SmallSpec(), image));
  clock_.Advance(kTook - absl::Microseconds(500));
  AwaitUnit(1 + kTextRuns);  // the next part would be one run
  FinishAll();
  EXPECT_EQ(Only<Completed>(video->WaitForEnd()).size(), 1u);
  EXPECT_EQ(Only<Completed>(image->WaitForEnd()).size(), 1u);
}

}  // namespace
}  // namespace latentd::engine
