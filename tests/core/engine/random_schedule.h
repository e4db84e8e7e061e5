// Requests that come, go, fail and are late at random moments beside each other, on devices that
// work later than they are told and whose steps are hashes of what their rows read: whatever
// becomes of others, each picture, and each frame of a video, is to be what it is alone.
#pragma once

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <algorithm>
#include <array>
#include <atomic>
#include <cstdint>
#include <cstdlib>
#include <cstring>
#include <deque>
#include <map>
#include <memory>
#include <random>
#include <string>
#include <utility>
#include <vector>

#include "absl/algorithm/container.h"
#include "absl/base/thread_annotations.h"
#include "absl/hash/hash.h"
#include "absl/strings/match.h"
#include "absl/strings/numbers.h"
#include "absl/strings/string_view.h"
#include "absl/synchronization/mutex.h"
#include "absl/types/span.h"
#include "core/base/errors/error_details.h"
#include "core/device/device_fault.h"
#include "core/image/encode.h"
#include "core/schedulers/schedule.h"
#include "tests/core/engine/loop_rig.h"
#include "tests/support/inputs.h"
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

// A run of a graph, by hashes instead of arithmetic. A step is its rows' predictions, each of what
// the UNet reads for that row, and their advance, of what guidance and noise scheduler do; so that
// network and advance together give what the step gives.
class HashedRun {
 public:
  explicit HashedRun(const RunPorts& ports) : ports_(ports) {}

  void Run() const {
    if (Find(ports_.outputs, kPrediction) != nullptr) return Predict();
    if (ports_.step_rows > 0) return Step();
    size_t hash = 0;
    for (const auto& input : ports_.inputs) hash = absl::HashOf(hash, Text(input.bytes));
    for (const auto& output : ports_.outputs)
      FillFrom(absl::HashOf(hash, output.name), output.bytes);
  }

 private:
  using Bytes = absl::Span<const uint8_t>;
  using Prefix = std::array<uint8_t, 8>;  // a prediction's first bytes, whatever its dtype
  static constexpr char kPrediction[] = "prediction";

  static absl::string_view Text(Bytes bytes) {
    return {reinterpret_cast<const char*>(bytes.data()), bytes.size()};
  }

  // Fills floats, with finite ones.
  static void FillFrom(size_t hash, absl::Span<uint8_t> bytes) {
    std::minstd_rand random(static_cast<uint32_t>(hash ^ hash >> 32));
    for (size_t i = 0; i < bytes.size(); i += sizeof(uint32_t)) {
      const uint32_t word = 0x3f800000u | static_cast<uint32_t>(random()) >> 8;
      std::memcpy(&bytes[i], &word, std::min(sizeof(word), bytes.size() - i));
    }
  }

  // Null: there is none.
  template <typename Port>
  static const Port* Find(const std::vector<Port>& ports, absl::string_view name) {
    const auto found = absl::c_find_if(ports, [&](const Port& port) { return port.name == name; });
    return found == ports.end() ? nullptr : &*found;
  }

  void Predict() const {
    for (int row = 0; row < ports_.step_rows; ++row) {
      FillFrom(HashOfPrediction(row), Find(ports_.outputs, kPrediction)->row(row));
    }
  }

  // Rows read each other's states, which the outputs are written over.
  void Step() const {
    std::vector<size_t> hashes;
    for (int row = 0; row < ports_.step_rows; ++row) hashes.push_back(HashOfRow(row));
    for (int row = 0; row < ports_.step_rows; ++row) {
      const size_t hash = hashes[row];
      if (const auto* deep = Find(ports_.outputs, "deep_features")) {
        FillFrom(hash + 1, deep->row(row));
      }
      FillFrom(hash, Find(ports_.outputs, "state")->row(row));
      const float apart = hash % 4 == 0 ? 1 : 0;
      if (const auto* contrast = Find(ports_.outputs, "contrast")) {  // an image's alone has it
        std::memcpy(contrast->row(row).data(), &apart, sizeof(apart));
      }
      int64_t next = At<int64_t>("step", row) + 1;
      std::memcpy(Find(ports_.outputs, "step")->row(row).data(), &next, sizeof(next));
    }
  }

  size_t HashOfRow(int row) const {
    const Bytes line = LineOf(row);
    float draws_noise = 0;
    std::memcpy(&draws_noise, &line[schedulers::kLineDrawsNoise * sizeof(float)], sizeof(float));
    return absl::HashOf(Text(Row("state", row)), Text(line), Text(Row("guidance_scale", row)),
                        Text(Row("guidance_rescale", row)),
                        PredictionOf(At<int64_t>("negative_rows", row)),
                        PredictionOf(At<int64_t>("text_rows", row)),
                        draws_noise != 0 ? Text(Row("noise", row)) : absl::string_view());
  }

  Prefix PredictionOf(int64_t row) const {
    Prefix prefix;
    if (Find(ports_.inputs, kPrediction) != nullptr) {
      std::memcpy(prefix.data(), Row(kPrediction, row).data(), prefix.size());
    } else {
      FillFrom(HashOfPrediction(row), absl::MakeSpan(prefix));
    }
    return prefix;
  }

  // The UNet reads x, the first of the state's parts.
  size_t HashOfPrediction(int64_t row) const {
    const Bytes state = Row("state", row);
    return absl::HashOf(Text(state.first(state.size() / schedulers::kStateRows)), Text(LineOf(row)),
                        HashOfRequest(row));
  }

  // A row without a picture counts on beyond its table.
  Bytes LineOf(int64_t row) const {
    constexpr size_t kLine = schedulers::kLineElements * sizeof(float);
    const Bytes table = Row("table", row);
    const size_t last = table.size() / kLine - 1;
    return table.subspan(std::min<size_t>(At<int64_t>("step", row), last) * kLine, kLine);
  }

  // In whatever order the graph has them.
  size_t HashOfRequest(int64_t row) const {
    static constexpr absl::string_view kOfStep[] = {
        "state",         "step",     "table", "noise", "guidance_scale", "guidance_rescale",
        "negative_rows", "text_rows"};
    size_t hash = 0;
    for (const auto& input : ports_.inputs) {
      if (absl::c_linear_search(kOfStep, input.name)) continue;
      hash ^= absl::HashOf(input.name, Text(input.row(row)));
    }
    return hash;
  }

  // Empty: the step has no such input.
  Bytes Row(absl::string_view name, int64_t row) const {
    const auto* port = Find(ports_.inputs, name);
    return port == nullptr ? Bytes() : Bytes(port->row(row));
  }
  template <typename T>
  T At(absl::string_view name, int64_t row) const {
    T value;
    std::memcpy(&value, Row(name, row).data(), sizeof(T));
    return value;
  }

  const RunPorts& ports_;
};

// Files by the index of their image or video, and their frame; of a video's one file it is 0.
using Files = std::map<std::pair<int, int>, std::string>;

// A kind of request, and what it gets alone.
struct Kind {
  GenerateSpec spec;
  Files alone = {};
};

inline Kind KindOf(int steps, double guidance_scale, int pictures, const std::string& scheduler) {
  Kind kind{SmallSpec(steps)};
  pipeline::PictureSpec& picture = kind.spec.picture;
  picture.guidance_scale = guidance_scale;
  picture.num_images_per_prompt = pictures;
  picture.scheduler.name = scheduler;
  return kind;
}

inline std::string GreyImage() {
  const image::Image grey{.width = 64, .height = 64, .rgb = std::vector<uint8_t>(64 * 64 * 3, 99)};
  return image::Encode(grey, {}).value();
}

// From text and from images, with base, refiner and both.
inline std::vector<Kind> AllKinds() {
  const std::string image = GreyImage();
  std::vector<Kind> kinds = {KindOf(1, 1, 1, "euler"),
                             KindOf(3, 4, 1, "heun"),
                             KindOf(2, 1, 3, "lcm"),
                             KindOf(4, 6, 2, "dpmpp_2m"),
                             KindOf(5, 5, 1, "euler_ancestral"),
                             KindOf(6, 3, 1, "ddim"),
                             KindOf(4, 1, 2, "dpmpp_2m_sde"),
                             KindOf(6, 4, 1, "euler"),
                             KindOf(4, 5, 1, "euler_ancestral")};
  kinds[4].spec.picture.guidance_interval = {.start = 0.4, .stop = 0.7};
  for (size_t i : {5, 6, 8}) {
    kinds[i].spec.inputs = ::latentd::testing::ImageInput(image);
    kinds[i].spec.picture.strength = 0.7;
  }
  kinds[7].spec.picture.refine = true;
  kinds[7].spec.picture.denoising_end = 0.5;
  kinds[8].spec.picture.model = "refiner";
  kinds[3].spec.picture.guidance_rescale = 0.5;
  for (size_t i : {1, 3, 5, 7}) {
    kinds[i].spec.picture.guidance_stop = pipeline::GuidanceStop::kAuto;
  }
  for (size_t i = 0; i < kinds.size(); ++i) kinds[i].spec.picture.seed = i;
  return kinds;
}

// Likewise, whose steps are full and shallow ones. For models with feature_cache.
inline std::vector<Kind> CachingKinds() {
  std::vector<Kind> kinds = {KindOf(9, 4, 2, "euler_ancestral"), KindOf(7, 1, 1, "dpmpp_2m"),
                             KindOf(4, 4, 1, "heun"), KindOf(8, 5, 1, "ddim"),
                             KindOf(12, 4, 1, "euler")};
  for (size_t i = 0; i < kinds.size(); ++i) {
    kinds[i].spec.picture.seed = 200 + i;
    kinds[i].spec.picture.feature_cache_interval = 2 + i % 3;
  }
  for (size_t i : {2, 4}) {
    kinds[i].spec.picture.guidance_stop = pipeline::GuidanceStop::kAuto;
  }
  kinds[3].spec.inputs = ::latentd::testing::ImageInput(GreyImage());
  kinds[3].spec.picture.strength = 0.9;
  kinds[4].spec.picture.refine = true;
  kinds[4].spec.picture.denoising_end = 0.5;
  return kinds;
}

inline absl::StatusOr<Image> Unencoded(const Job&, int index, uint64_t seed,
                                       const image::Image& pixels, const image::RunParts&) {
  return Image{
      .index = index, .seed = seed, .bytes = std::string(pixels.rgb.begin(), pixels.rgb.end())};
}

inline Files FilesOf(const std::vector<Event>& events) {
  Files files;
  for (const Image& image : Only<Image>(events)) {
    std::string& file = files[{image.index, image.part ? 0 : image.frame}];
    if (image.part) {
      EXPECT_EQ(image.part->offset, static_cast<int64_t>(file.size()));
    } else {
      EXPECT_EQ(file, "");
    }
    file += image.bytes;
  }
  return files;
}

// Number of files that a request of the kind gets.
inline size_t FileCountOf(const Kind& kind) {
  const pipeline::PictureSpec& picture = kind.spec.picture;
  const bool has_frames = picture.video && !kind.spec.video_file;
  return *picture.num_images_per_prompt * (has_frames ? *picture.video->num_frames : 1);
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
      if (bench_.split == Split::kNever) EXPECT_NE(faults_.reported, device);
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
