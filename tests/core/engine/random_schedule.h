// Requests that come, go, fail and are late at random moments beside each other, on devices that
// work later than they are told: whatever becomes of others, each picture, and each frame of a
// video, is to be what it is alone.
#pragma once

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <atomic>
#include <cstdint>
#include <cstdlib>
#include <deque>
#include <memory>
#include <random>
#include <string>
#include <utility>
#include <vector>

#include "absl/base/thread_annotations.h"
#include "absl/strings/match.h"
#include "absl/strings/numbers.h"
#include "absl/synchronization/mutex.h"
#include "core/base/errors/error_details.h"
#include "core/device/device_fault.h"
#include "tests/core/engine/hashed_run.h"
#include "tests/core/engine/loop_rig.h"
#include "tests/core/engine/request_kinds.h"
#include "tests/support/sanitized.h"

namespace latentd::engine {

inline constexpr int kRequestsOfSchedule = 6;
inline constexpr char kInjected[] = "injected";

// Number of schedules that a test plays: LATENTD_SCHEDULES, or enough for each commit.
inline int ScheduleCount() {
#ifdef LATENTD_SANITIZED
  int schedules = 20;
#else
  int schedules = 200;
#endif
  const char* given = std::getenv("LATENTD_SCHEDULES");
  EXPECT_TRUE(given == nullptr || absl::SimpleAtoi(given, &schedules));
  return schedules;
}

inline absl::StatusOr<Image> Unencoded(const Job&, int index, uint64_t seed,
                                       const image::Image& pixels, const image::RunParts&) {
  return Image{
      .index = index, .seed = seed, .bytes = std::string(pixels.rgb.begin(), pixels.rgb.end())};
}

// Devices of a loop, with a model on each. All must outlive what uses it.
struct Bench {
  // Options and devices of its loops.
  PictureLoop::Options Options() const {
    PictureLoop::Options options{.encode = Unencoded};
    options.queue.split = split;
    return options;
  }
  std::vector<PictureLoop::Device> Devices() const {
    std::vector<PictureLoop::Device> all;
    for (LoopModel* model : models) all.push_back({model->backend.device(), {}});
    return all;
  }
  // A request that any of the devices may draw.
  std::shared_ptr<Job> MakeJob(PictureLoop& loop, std::shared_ptr<EventSink> sink,
                               GenerateSpec spec) const {
    const pipeline::SharedInputs inputs = spec.inputs;
    auto job = models.front()->MakeJob(loop, std::move(sink), std::move(spec), clock);
    for (size_t i = 1; i < models.size(); ++i) {
      job->others.emplace_back(i, models[i]->pipeline->Start(job->plan, inputs).value());
      job->devices |= uint64_t{1} << i;
    }
    return job;
  }

  std::vector<LoopModel*> models;
  ::latentd::testing::FakeClock& clock;
  EngineMetrics& metrics;
  Split split = Split::kNever;
  bool devices_fail = false;  // in some schedules one does, for good
  bool one_fails = false;     // in each, if it has so many runs
};

// Faults of one schedule's runs, counted from its beginning. 0: none.
struct ScheduleFaults {
  std::atomic<int> runs = 0, enqueued = 0, steps = 0;
  int failing_run = 0, refused_run = 0, refused_step = 0;
  bool fails_for_good = false;     // the failing run's device
  std::atomic<int> failed = -1;    // device of the failing run, from then on
  std::atomic<int> reported = -1;  // likewise, once the loop has said so
};

// A random schedule of events; the loop's own threads decide their times, by events of steps.
class RandomSchedule {
 public:
  // Both must outlive it.
  RandomSchedule(uint32_t seed, const std::vector<Kind>& kinds, Bench& bench)
      : random_(seed), kinds_(kinds), bench_(bench) {
    if (Below(4) == 0) faults_.failing_run = 1 + Below(40);
    if (Below(4) == 0) faults_.refused_run = 1 + Below(40);
    if (Below(2) == 0) faults_.refused_step = 1 + Below(20);
    faults_.fails_for_good = bench.devices_fail && Below(2) == 0;
    if (bench.one_fails) {
      faults_.failing_run = 1 + Below(60);
      faults_.fails_for_good = true;
    }
    for (size_t i = 0; i < bench_.models.size(); ++i) {
      SetFaults(static_cast<int>(i), bench_.models[i]->on_run);
    }
    PictureLoop::Options options = bench_.Options();
    options.on_device_fault = [this](const absl::Status& fault, size_t device) {
      EXPECT_TRUE(device::IsFault(fault)) << fault;
      EXPECT_EQ(static_cast<int>(device), faults_.failed);
      faults_.reported = static_cast<int>(device);
    };
    loop_ = std::make_unique<PictureLoop>(options, bench_.Devices(), bench_.metrics, bench_.clock);
  }
  ~RandomSchedule() {
    loop_.reset();  // nothing runs any more
    for (LoopModel* model : bench_.models) {
      model->on_run.work = model->on_run.refuse = nullptr;
      model->on_run.refuse_step = nullptr;
      model->on_run.enqueue = nullptr;
    }
  }

  // How its requests ended.
  std::vector<absl::StatusCode> Run() {
    while (left_ > 0) {
      AdmitNext();
      for (size_t i = 0; i < asked(); ++i) sink(i).WaitForEnd();
    }
    std::vector<absl::StatusCode> ends;
    int lost_with_helper = 0;
    absl::MutexLock lock(&mutex_);
    for (const Asked& one : asked_) {
      const absl::Status end = EndOf(one);
      ends.push_back(end.code());
      if (GetReason(end) == device::kDeviceFault && !WasOnFailed(*one.job)) ++lost_with_helper;
    }
    // The first unit that is done tells of it, and behind it is one more.
    EXPECT_LE(lost_with_helper, 2);
    return ends;
  }

 private:
  struct Asked {
    const Kind* kind;
    bool has_deadline = false, cancelled = false;
    std::shared_ptr<::latentd::testing::RecordingSink> sink;
    std::shared_ptr<Job> job;
  };

  // A random number, for any thread.
  int Below(int end) {
    absl::MutexLock lock(&drawing_);
    return static_cast<int>(random_() % end);
  }

  void SetFaults(int device, OnRun& on_run) {
    on_run.work = [this, device] {
      bench_.clock.Advance(absl::Milliseconds(10));
      if (faults_.failed == device) return device::FaultError(kInjected);
      if (++faults_.runs != faults_.failing_run) return absl::OkStatus();
      if (!faults_.fails_for_good) return absl::InternalError(kInjected);
      faults_.failed = device;
      return device::FaultError(kInjected);
    };
    // Another thread finds it out, where steps are split.
    on_run.enqueue = [this, device] {
      if (bench_.split == Split::kNever) {
        EXPECT_NE(faults_.reported, device);
      }
    };
    on_run.refuse = [this] {
      const bool fails = ++faults_.enqueued == faults_.refused_run;
      return fails ? absl::InternalError(kInjected) : absl::OkStatus();
    };
    on_run.refuse_step = [this](int rows) {
      const bool fails = rows == 4 && ++faults_.steps == faults_.refused_step;
      return fails ? absl::ResourceExhaustedError(kInjected) : absl::OkStatus();
    };
  }

  void AdmitNext() {
    int left = left_;
    while (left > 0 && !left_.compare_exchange_weak(left, left - 1)) {
    }
    if (left == 0) return;
    Asked asked{.kind = &kinds_[Below(static_cast<int>(kinds_.size()))]};
    GenerateSpec spec = asked.kind->spec;
    spec.caller = std::string(1, static_cast<char>('a' + Below(2)));
    spec.priority = Below(3) - 1;
    asked.has_deadline = Below(5) == 0;
    if (asked.has_deadline) {
      spec.deadline = bench_.clock.Monotonic() + absl::Milliseconds(Below(200));
    }
    asked.sink = std::make_shared<WatchedSink>([this](const Event& event) {
      if (std::holds_alternative<Progress>(event)) Happen();
    });
    asked.job = bench_.MakeJob(*loop_, asked.sink, std::move(spec));
    const absl::Status admitted = loop_->Admit(asked.job, 0);
    if (!admitted.ok()) return CheckRefusal(admitted);
    absl::MutexLock lock(&mutex_);
    asked_.push_back(std::move(asked));
  }

  // On a loop's thread.
  void Happen() {
    switch (Below(8)) {
      case 0:
      case 1:
        return AdmitNext();
      case 2:
        CancelOne();
    }
  }
  void CancelOne() {
    absl::MutexLock lock(&mutex_);
    if (asked_.empty()) return;
    Asked& one = asked_[Below(static_cast<int>(asked_.size()))];
    one.cancelled = true;
    loop_->Cancel(one.job->handle);
  }

  // Requests of which nothing had begun have left it.
  bool WasOnFailed(const Job& job) const { return static_cast<int>(job.device) == faults_.failed; }
  // The failed device drew it, or could help with it.
  bool IsOfFault(const absl::Status& status, const Asked& one) const {
    if (GetReason(status) != device::kDeviceFault || !absl::IsUnavailable(status)) return false;
    const bool may_have_help =
        bench_.split != Split::kNever && *one.kind->spec.picture.guidance_scale > 1;
    return WasOnFailed(*one.job) || (may_have_help && faults_.failed >= 0);
  }
  // There is always a device left.
  static void CheckRefusal(const absl::Status& refusal) {
    const std::string reason = GetReason(refusal);
    EXPECT_TRUE(reason == "PREDICTED_OVERRUN" || reason == "QUEUE_FULL") << refusal;
  }

  absl::Status EndOf(const Asked& one) const {
    const std::vector<Event> events = one.sink->WaitForEnd();
    const auto failed = Only<Failed>(events);
    EXPECT_EQ(failed.size() + Only<Completed>(events).size(), 1u);
    if (failed.empty()) {
      EXPECT_TRUE(FilesOf(events) == one.kind->alone) << "another picture than alone";
      return absl::OkStatus();
    }
    const absl::Status& end = failed[0].status;
    const bool is_explained = (absl::IsCancelled(end) && one.cancelled) ||
                              (absl::IsDeadlineExceeded(end) && one.has_deadline) ||
                              absl::StrContains(end.message(), kInjected) || IsOfFault(end, one);
    EXPECT_TRUE(is_explained) << end;
    return end;
  }

  size_t asked() {
    absl::MutexLock lock(&mutex_);
    return asked_.size();
  }
  ::latentd::testing::RecordingSink& sink(size_t index) {
    absl::MutexLock lock(&mutex_);
    return *asked_[index].sink;
  }

  absl::Mutex drawing_;
  std::mt19937 random_ ABSL_GUARDED_BY(drawing_);
  const std::vector<Kind>& kinds_;
  Bench& bench_;
  ScheduleFaults faults_;
  std::atomic<int> left_ = kRequestsOfSchedule;
  absl::Mutex mutex_;
  std::deque<Asked> asked_ ABSL_GUARDED_BY(mutex_);
  std::unique_ptr<PictureLoop> loop_;
};

}  // namespace latentd::engine
