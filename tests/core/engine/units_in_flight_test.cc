// The loop on a device that works later than it is told: two units at a time, and what becomes of
// those that the device has when their request ends.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <atomic>
#include <memory>
#include <optional>
#include <thread>
#include <utility>
#include <vector>

#include "absl/synchronization/notification.h"
#include "core/device/device_fault.h"
#include "core/engine/loop/picture_loop.h"
#include "tests/core/engine/loop_rig.h"
#include "tests/support/separate_device.h"

namespace latentd::engine {
namespace {

using ::latentd::testing::FakeClock;
using ::latentd::testing::RecordingSink;
using ::latentd::testing::SeparateDevice;
using ::latentd::testing::StatusIs;
using ::testing::_;
using ::testing::ElementsAre;

constexpr int kTextRuns = 3;  // two encoders and the request part

class UnitsInFlightTest : public ::testing::Test {
 protected:
  static void SetUpTestSuite() {
    device_ = std::make_unique<SeparateDevice>();
    model_ = std::make_unique<LoopModel>(*device_);
  }
  static void TearDownTestSuite() {
    model_.reset();
    device_.reset();
  }
  UnitsInFlightTest()
      : loop_(std::make_unique<PictureLoop>(PictureLoop::Options(), *device_, metrics_, clock_)) {
    model_->on_run.enqueue = [this] { ++enqueued_; };
  }
  ~UnitsInFlightTest() override {
    loop_.reset();
    model_->on_run = {};
  }

  std::shared_ptr<Job> Admit(std::shared_ptr<EventSink> sink, int steps, int pictures = 1) {
    auto job = model_->MakeJob(*loop_, std::move(sink), pictures, steps, clock_);
    EXPECT_OK(loop_->Admit(job, 0));
    return job;
  }
  std::vector<Event> Draw(int steps) {
    const auto sink = std::make_shared<RecordingSink>();
    Admit(sink, steps);
    return sink->WaitForEnd();
  }
  double Count(const metrics::Family& family) { return MetricOf(registry_, family); }

  static inline std::unique_ptr<SeparateDevice> device_;
  static inline std::unique_ptr<LoopModel> model_;
  FakeClock clock_;
  metrics::Registry registry_;
  EngineMetrics metrics_{registry_};
  std::atomic<int> enqueued_ = 0;  // runs of graphs
  std::unique_ptr<PictureLoop> loop_;
};

// Some pictures of a request take a step later if there is no memory for all of its rows.
TEST_F(UnitsInFlightTest, TheFirstOfAJobIsTheFirstThatDoesNotWait) {
  const auto sink = std::make_shared<RecordingSink>();
  const auto job = model_->MakeJob(*loop_, sink, /*pictures=*/3, /*steps=*/1, clock_);
  const auto other = model_->MakeJob(*loop_, sink, /*pictures=*/1, /*steps=*/1, clock_);
  UnitInFlight done;
  done.pictures = {{job, 0}, {other, 0}, {job, 1}, {job, 2}};
  done.unit.parts.resize(4);
  const auto firsts = [&] {
    std::vector<size_t> firsts;
    for (size_t i = 0; i < 4; ++i) {
      if (IsFirstOfJob(done, i)) firsts.push_back(i);
    }
    return firsts;
  };
  EXPECT_THAT(firsts(), ElementsAre(0, 1));
  done.unit.parts[0].waits = true;
  EXPECT_THAT(firsts(), ElementsAre(1, 2));
  done.unit.parts[1].waits = true;
  EXPECT_THAT(firsts(), ElementsAre(2));
}

TEST_F(UnitsInFlightTest, TheNextStepIsEnqueuedWhileOneRunsAndNoMore) {
  std::vector<int> enqueued;  // when a step was done
  const auto sink = std::make_shared<WatchedSink>([&](const Event& event) {
    const auto* progress = std::get_if<Progress>(&event);
    if (progress != nullptr && progress->stage == Stage::kSteps) enqueued.push_back(enqueued_);
  });
  Admit(sink, /*steps=*/3);
  EXPECT_EQ(Only<Completed>(sink->WaitForEnd()).size(), 1u);
  // Behind the last step comes the decode.
  EXPECT_EQ(enqueued, (std::vector<int>{kTextRuns + 2, kTextRuns + 3, kTextRuns + 4}));
}

TEST_F(UnitsInFlightTest, TheNextPictureBeginsWhileOneIsDecoded) {
  int enqueued = 0;
  const auto next = std::make_shared<RecordingSink>();
  const auto first = std::make_shared<WatchedSink>([&](const Event& event) {
    if (std::holds_alternative<Started>(event)) Admit(next, /*steps=*/1);
    const auto* progress = std::get_if<Progress>(&event);
    if (progress != nullptr && progress->stage == Stage::kDecode) enqueued = enqueued_;
  });
  Admit(first, /*steps=*/1);
  EXPECT_EQ(Only<Completed>(first->WaitForEnd()).size(), 1u);
  EXPECT_EQ(Only<Completed>(next->WaitForEnd()).size(), 1u);
  EXPECT_EQ(enqueued, kTextRuns + 2 + kTextRuns);
}

TEST_F(UnitsInFlightTest, TimesAreTheDevices) {
  model_->on_run.work = [this] {
    clock_.Advance(absl::Seconds(1));
    return absl::OkStatus();
  };
  const auto completed = Only<Completed>(Draw(/*steps=*/4));
  ASSERT_EQ(completed.size(), 1u);
  EXPECT_EQ(TimeOf(completed[0].timings, Stage::kText), absl::Seconds(kTextRuns));
  EXPECT_EQ(TimeOf(completed[0].timings, Stage::kSteps), absl::Seconds(4));
  EXPECT_EQ(TimeOf(completed[0].timings, Stage::kDecode), absl::Seconds(1));
}

TEST_F(UnitsInFlightTest, EachUnitSaysWhenTheDeviceWasAtItAndTextOfARequestIsEncodedOnce) {
  const absl::Time begin = clock_.Monotonic();
  model_->on_run.work = [this] {
    clock_.Advance(absl::Seconds(1));
    return absl::OkStatus();
  };
  const auto sink = std::make_shared<RecordingSink>();
  Admit(sink, /*steps=*/2, /*pictures=*/2);
  absl::Time last = begin;
  int without_work = 0;
  for (const Progress& progress : Only<Progress>(sink->WaitForEnd())) {
    if (!progress.worked) {
      EXPECT_EQ(progress.stage, Stage::kText);
      EXPECT_EQ(progress.image_index, 1);
      ++without_work;
      continue;
    }
    EXPECT_EQ(progress.worked->begin, last) << progress.image_index << ' ' << progress.step;
    const bool is_text = progress.stage == Stage::kText;
    EXPECT_EQ(progress.worked->length(), absl::Seconds(is_text ? kTextRuns : 1));
    last = progress.worked->end;
  }
  EXPECT_EQ(without_work, 1);
  EXPECT_EQ(last, begin + absl::Seconds(kTextRuns + 2 * 2 + 2));
}

TEST_F(UnitsInFlightTest, EmbeddingsNeitherExpectTextNorTeachItsTime) {
  model_->on_run.work = [this] {
    clock_.Advance(absl::Seconds(1));
    return absl::OkStatus();
  };
  const auto zeros = [](std::vector<int64_t> shape, size_t elements) {
    return pipeline::HostTensor{.shape = std::move(shape), .data = std::string(4 * elements, 0)};
  };
  GenerateSpec embedded = SmallSpec(/*steps=*/4);
  embedded.picture.prompt.clear();
  embedded.inputs = std::make_shared<pipeline::Inputs>(
      pipeline::Inputs{.prompt = {zeros({77, 160}, 77 * 160), zeros({96}, 96)}});
  const auto total_of_embedded = [&] {
    const auto sink = std::make_shared<RecordingSink>();
    EXPECT_OK(loop_->Admit(model_->MakeJob(*loop_, sink, embedded, clock_), 0));
    return Only<Queued>(sink->WaitForEnd()).at(0).total;
  };
  const auto total_of_text = [&] { return Only<Queued>(Draw(/*steps=*/4)).at(0).total; };
  total_of_text();  // learns
  const absl::Duration with_text = total_of_text(), without = total_of_embedded();
  EXPECT_GT(without, absl::ZeroDuration());
  EXPECT_NEAR(absl::FDivDuration(without, with_text), 5.0 / (kTextRuns + 5), 1e-6);
  EXPECT_EQ(total_of_embedded(), without);
  EXPECT_EQ(total_of_text(), with_text);
}

TEST_F(UnitsInFlightTest, DropsWhatTheDeviceStillHasOfACancelledRequest) {
  std::shared_ptr<Job> job;
  int enqueued = 0;
  const auto sink = std::make_shared<WatchedSink>([&](const Event& event) {
    const auto* progress = std::get_if<Progress>(&event);
    if (progress == nullptr || progress->stage != Stage::kSteps || progress->step != 3) return;
    loop_->Cancel(job->handle);
    enqueued = enqueued_;
  });
  job = model_->MakeJob(*loop_, sink, 1, /*steps=*/150, clock_);
  ASSERT_OK(loop_->Admit(job, 0));
  const std::vector<Event> events = sink->WaitForEnd();
  ASSERT_EQ(Only<Failed>(events).size(), 1u);
  EXPECT_TRUE(absl::IsCancelled(Only<Failed>(events)[0].status));
  EXPECT_EQ(Count(metrics::kSteps), 3);
  const std::weak_ptr<Job> gone = job;
  job.reset();
  EXPECT_EQ(Only<Completed>(Draw(/*steps=*/2)).size(), 1u);
  EXPECT_TRUE(gone.expired());
  EXPECT_EQ(enqueued_, enqueued + kTextRuns + 3);  // nothing of it after it was cancelled
  EXPECT_EQ(Count(metrics::kSteps), 5);
}

TEST_F(UnitsInFlightTest, FailsARequestOnceWhoseLaterUnitIsWithTheDeviceToo) {
  bool failed = false;
  model_->on_run.work = [&] {
    return std::exchange(failed, true) ? absl::OkStatus() : absl::InternalError("the device fell");
  };
  const std::vector<Event> events = Draw(/*steps=*/4);
  ASSERT_EQ(Only<Failed>(events).size(), 1u);
  EXPECT_THAT(Only<Failed>(events)[0].status,
              StatusIs(absl::StatusCode::kInternal, "the device fell"));
  EXPECT_EQ(Only<Progress>(events).size(), 0u);
  EXPECT_EQ(Only<Completed>(Draw(/*steps=*/2)).size(), 1u);
  EXPECT_EQ(loop_->state_bytes(), 0);
}

// In the middle of the text's unit, whose first run is with the device; and of the last step, with
// the one before.
TEST_F(UnitsInFlightTest, WaitsForWhatAUnitHasEnqueuedThatCannotBeEnqueuedWhole) {
  const size_t allocations = device_->allocations();
  for (int run : {2, kTextRuns + 4}) {
    enqueued_ = 0;
    model_->on_run.refuse = [this, run] {
      return enqueued_ == run ? absl::InternalError("no more") : absl::OkStatus();
    };
    const std::vector<Event> events = Draw(/*steps=*/4);
    ASSERT_EQ(Only<Failed>(events).size(), 1u);
    EXPECT_THAT(Only<Failed>(events)[0].status, StatusIs(absl::StatusCode::kInternal, "no more"));
    model_->on_run.refuse = nullptr;
    EXPECT_EQ(Only<Completed>(Draw(/*steps=*/1)).size(), 1u);
  }
  loop_.reset();
  EXPECT_EQ(device_->allocations(), allocations);
}

TEST_F(UnitsInFlightTest, SaysThatTheSecondUnitHangsOnceTheFirstIsDone) {
  absl::Notification go_on, second_runs;
  int runs = 0;  // the device's
  model_->on_run.work = [&] {
    if (++runs == kTextRuns + 1) {
      second_runs.Notify();
      go_on.WaitForNotification();
    }
    return absl::OkStatus();
  };
  const auto sink = std::make_shared<RecordingSink>();
  Admit(sink, /*steps=*/2);
  second_runs.WaitForNotification();
  clock_.Advance(UnitWatchdog::kFirstLimit);
  ASSERT_TRUE(loop_->FindHangs().unit.has_value());
  EXPECT_EQ(loop_->FindHangs().unit->stage, Stage::kSteps);
  while (!loop_->FindHangs().threads.empty()) std::this_thread::yield();  // until it waits for that
  go_on.Notify();
  EXPECT_EQ(Only<Completed>(sink->WaitForEnd()).size(), 1u);
  EXPECT_FALSE(loop_->FindHangs().unit.has_value());
}

// An event of a helper. Waiting for one that is not reached would last for ever.
class HelpersEvent : public device::Event {
 public:
  HelpersEvent(bool reached, absl::Status status) : reached_(reached), status_(std::move(status)) {}
  bool Reached() const override { return reached_; }
  absl::Status Wait() const override {
    EXPECT_TRUE(reached_) << "is waited for";
    return status_;
  }
  absl::Time time() const override { return absl::UnixEpoch(); }

 private:
  const bool reached_;
  const absl::Status status_;
};

TEST(FaultyHelperTest, IsTheHelperWhoseWorkHasFailedWithItsDevice) {
  UnitInFlight done;
  const auto faulty = [&](bool reached, absl::Status status) {
    done.unit.helped = std::make_shared<HelpersEvent>(reached, std::move(status));
    return FaultyHelper(done);
  };
  done.what.helper = 2;
  EXPECT_EQ(faulty(true, device::FaultError("gone")), 2);
  EXPECT_EQ(faulty(true, absl::InternalError("of the unit alone")), std::nullopt);
  EXPECT_EQ(faulty(true, absl::OkStatus()), std::nullopt);
  // It may be at an event of the device that has failed for ever.
  EXPECT_EQ(faulty(false, absl::OkStatus()), std::nullopt);
  done.what.helper = -1;
  EXPECT_EQ(faulty(true, device::FaultError("gone")), std::nullopt);
}

TEST_F(UnitsInFlightTest, WaitsForTheDeviceBeforeItGoes) {
  const auto sink = std::make_shared<RecordingSink>();
  const size_t allocations = device_->allocations();
  Admit(sink, /*steps=*/150);
  sink->WaitFor<Progress>();
  loop_.reset();
  EXPECT_EQ(Only<Failed>(sink->WaitForEnd()).size(), 1u);
  EXPECT_EQ(device_->allocations(), allocations);
}

}  // namespace
}  // namespace latentd::engine
