// Requests that come, go, fail and are late at random moments beside each other, on a device that
// works later than it is told and whose steps are a hash of what their row reads: whatever becomes
// of others, each picture is what it is alone, and nothing is left.
//
// LATENTD_SCHEDULES=10000 says how many schedules.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <algorithm>
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
#include "core/image/encode.h"
#include "core/schedulers/schedule.h"
#include "tests/core/engine/loop_rig.h"
#include "tests/support/inputs.h"
#include "tests/support/sanitized.h"
#include "tests/support/separate_device.h"

namespace latentd::engine {
namespace {

using ::latentd::testing::FakeClock;
using ::latentd::testing::RecordingSink;
using ::latentd::testing::SeparateDevice;

#ifdef LATENTD_SANITIZED
constexpr int kSchedules = 20;
#else
constexpr int kSchedules = 200;
#endif
constexpr int kRequests = 6;  // requests of one schedule
constexpr char kInjected[] = "injected";

using Bytes = absl::Span<const uint8_t>;

absl::string_view Text(Bytes bytes) {
  return {reinterpret_cast<const char*>(bytes.data()), bytes.size()};
}

// Fills floats, with finite ones.
void FillFrom(size_t hash, absl::Span<uint8_t> bytes) {
  std::minstd_rand random(static_cast<uint32_t>(hash ^ hash >> 32));
  for (size_t i = 0; i < bytes.size(); i += sizeof(uint32_t)) {
    const uint32_t word = 0x3f800000u | static_cast<uint32_t>(random()) >> 8;
    std::memcpy(&bytes[i], &word, std::min(sizeof(word), bytes.size() - i));
  }
}

// A run of a graph, by hashes instead of arithmetic.
class HashedRun {
 public:
  explicit HashedRun(const RunPorts& ports) : ports_(ports) {}

  void Run() const {
    if (ports_.step_rows > 0) return Step();
    size_t hash = 0;
    for (const auto& input : ports_.inputs) hash = absl::HashOf(hash, Text(input.bytes));
    for (const auto& output : ports_.outputs)
      FillFrom(absl::HashOf(hash, output.name), output.bytes);
  }

 private:
  // Each row by itself, from what the UNet, guidance and noise scheduler would read for it.
  void Step() const {
    const auto state =
        absl::c_find_if(ports_.outputs, [](auto& out) { return out.name == "state"; });
    const auto step = absl::c_find_if(ports_.outputs, [](auto& out) { return out.name == "step"; });
    const auto contrast =
        absl::c_find_if(ports_.outputs, [](auto& out) { return out.name == "contrast"; });
    const auto deep =
        absl::c_find_if(ports_.outputs, [](auto& out) { return out.name == "deep_features"; });
    for (int row = 0; row < ports_.step_rows; ++row) {
      const size_t hash = HashOfRow(row);
      if (deep != ports_.outputs.end()) FillFrom(hash + 1, deep->row(row));
      FillFrom(hash, state->row(row));
      const float apart = hash % 4 == 0 ? 1 : 0;
      std::memcpy(contrast->row(row).data(), &apart, sizeof(apart));
      int64_t next = At<int64_t>("step", row) + 1;
      std::memcpy(step->row(row).data(), &next, sizeof(next));
    }
  }

  size_t HashOfRow(int row) const {
    const Bytes line = LineOf(row);
    float draws_noise = 0;
    std::memcpy(&draws_noise, &line[schedulers::kLineDrawsNoise * sizeof(float)], sizeof(float));
    return absl::HashOf(Text(Row("state", row)), Text(line), At<float>("guidance_scale", row),
                        At<float>("guidance_rescale", row),
                        HashOfRequest(At<int64_t>("negative_rows", row)),
                        HashOfRequest(At<int64_t>("text_rows", row)),
                        draws_noise != 0 ? Text(Row("noise", row)) : absl::string_view());
  }

  // A row without a picture counts on beyond its table.
  Bytes LineOf(int row) const {
    constexpr size_t kLine = schedulers::kLineElements * sizeof(float);
    const Bytes table = Row("table", row);
    const size_t last = table.size() / kLine - 1;
    return table.subspan(std::min<size_t>(At<int64_t>("step", row), last) * kLine, kLine);
  }

  size_t HashOfRequest(int64_t row) const {
    static constexpr absl::string_view kOfStep[] = {
        "state",         "step",     "table", "noise", "guidance_scale", "guidance_rescale",
        "negative_rows", "text_rows"};
    size_t hash = 0;
    for (const auto& input : ports_.inputs) {
      if (absl::c_linear_search(kOfStep, input.name)) continue;
      hash = absl::HashOf(hash, Text(input.row(row)));
    }
    return hash;
  }

  Bytes Row(absl::string_view name, int64_t row) const {
    return absl::c_find_if(ports_.inputs, [&](auto& input) { return input.name == name; })
        ->row(row);
  }
  template <typename T>
  T At(absl::string_view name, int64_t row) const {
    T value;
    std::memcpy(&value, Row(name, row).data(), sizeof(T));
    return value;
  }

  const RunPorts& ports_;
};

// A kind of request, and the pictures that it gets alone.
struct Kind {
  GenerateSpec spec;
  std::map<int, std::string> alone = {};  // by their index
};

Kind KindOf(int steps, double guidance_scale, int pictures, const std::string& scheduler) {
  Kind kind{SmallSpec(steps)};
  pipeline::PictureSpec& picture = kind.spec.picture;
  picture.guidance_scale = guidance_scale;
  picture.num_images_per_prompt = pictures;
  picture.scheduler.name = scheduler;
  return kind;
}

// From text and from images, with base, refiner and both.
std::vector<Kind> AllKinds(const std::string& image) {
  std::vector<Kind> kinds = {KindOf(1, 1, 1, "euler"),
                             KindOf(3, 4, 1, "heun"),
                             KindOf(2, 1, 3, "lcm"),
                             KindOf(4, 6, 2, "dpmpp_2m"),
                             KindOf(5, 5, 1, "euler_ancestral"),
                             KindOf(6, 3, 1, "ddim"),
                             KindOf(4, 1, 2, "dpmpp_2m_sde"),
                             KindOf(6, 4, 1, "euler"),
                             KindOf(4, 5, 1, "euler_ancestral"),
                             KindOf(9, 4, 2, "euler_ancestral"),
                             KindOf(7, 1, 1, "dpmpp_2m")};
  kinds[4].spec.picture.guidance_interval = {.start = 0.4, .stop = 0.7};
  for (size_t i : {5, 6, 8}) {
    kinds[i].spec.inputs = testing::ImageInput(image);
    kinds[i].spec.picture.strength = 0.7;
  }
  kinds[7].spec.picture.refine = true;
  kinds[7].spec.picture.denoising_end = 0.5;
  kinds[8].spec.picture.model = "refiner";
  kinds[3].spec.picture.guidance_rescale = 0.5;
  for (size_t i : {1, 3, 5, 7}) {
    kinds[i].spec.picture.guidance_stop = pipeline::GuidanceStop::kAuto;
  }
  for (size_t i : {1, 5, 7, 9, 10}) kinds[i].spec.picture.feature_cache_interval = 2 + i % 3;
  for (size_t i = 0; i < kinds.size(); ++i) kinds[i].spec.picture.seed = i;
  return kinds;
}

absl::StatusOr<Image> Unencoded(const Job&, int index, uint64_t seed, const image::Image& pixels,
                                const image::RunParts&) {
  return Image{
      .index = index, .seed = seed, .bytes = std::string(pixels.rgb.begin(), pixels.rgb.end())};
}

std::map<int, std::string> FilesOf(const std::vector<Event>& events) {
  std::map<int, std::string> files;
  for (const Image& image : Only<Image>(events)) files[image.index] = image.bytes;
  return files;
}

// Faults of one schedule's runs, counted from its beginning. 0: none.
struct Faults {
  std::atomic<int> runs = 0, enqueued = 0, steps = 0;
  int failing_run = 0, refused_run = 0, refused_step = 0;
};

Config CachingConfig() {
  Config config = EnsembleConfig();
  config.feature_cache = true;
  return config;
}

class RandomSchedulesTest : public ::testing::Test {
 protected:
  RandomSchedulesTest() {
    model_.on_run.computes = false;
    model_.on_run.instead = [](const RunPorts& ports) { HashedRun(ports).Run(); };
    model_.MakeReady({64, 64});
    const image::Image grey{
        .width = 64, .height = 64, .rgb = std::vector<uint8_t>(64 * 64 * 3, 99)};
    kinds_ = AllKinds(image::Encode(grey, {}).value());
    PictureLoop loop({.encode = Unencoded}, device_, metrics_, clock_);
    for (Kind& kind : kinds_) {
      const auto sink = std::make_shared<RecordingSink>();
      EXPECT_OK(loop.Admit(model_.MakeJob(loop, sink, kind.spec, clock_), 0));
      kind.alone = FilesOf(sink->WaitForEnd());
      EXPECT_EQ(kind.alone.size(), static_cast<size_t>(*kind.spec.picture.num_images_per_prompt));
    }
  }

  SeparateDevice device_;
  FakeClock clock_;
  metrics::Registry registry_;
  EngineMetrics metrics_{registry_};
  LoopModel model_{device_, {1, 2, 4}, CachingConfig()};
  std::vector<Kind> kinds_;
};

// A random schedule of events; the loop's own thread decides their times, by events of steps.
class Schedule {
 public:
  // All must outlive it.
  Schedule(uint32_t seed, const std::vector<Kind>& kinds, LoopModel& model, device::Device& device,
           EngineMetrics& metrics, FakeClock& clock)
      : random_(seed), kinds_(kinds), model_(model), clock_(clock) {
    if (Below(4) == 0) faults_.failing_run = 1 + Below(40);
    if (Below(4) == 0) faults_.refused_run = 1 + Below(40);
    if (Below(2) == 0) faults_.refused_step = 1 + Below(20);
    SetFaults();
    loop_ = std::make_unique<PictureLoop>(PictureLoop::Options{.encode = Unencoded}, device,
                                          metrics, clock);
  }
  ~Schedule() {
    loop_.reset();  // nothing runs any more
    model_.on_run.work = model_.on_run.refuse = nullptr;
    model_.on_run.refuse_step = nullptr;
  }

  // How its requests ended.
  std::vector<absl::StatusCode> Run() {
    while (left_ > 0) {
      AdmitNext();
      for (size_t i = 0; i < asked(); ++i) sink(i).WaitForEnd();
    }
    std::vector<absl::StatusCode> ends;
    absl::MutexLock lock(&mutex_);
    for (const Asked& one : asked_) ends.push_back(EndOf(one).code());
    return ends;
  }

 private:
  struct Asked {
    const Kind* kind;
    bool has_deadline = false, cancelled = false;
    std::shared_ptr<RecordingSink> sink;
    std::shared_ptr<Job> job;
  };

  int Below(int end) { return static_cast<int>(random_() % end); }

  void SetFaults() {
    OnRun& on_run = model_.on_run;
    on_run.work = [this] {
      clock_.Advance(absl::Milliseconds(10));
      const bool fails = ++faults_.runs == faults_.failing_run;
      return fails ? absl::InternalError(kInjected) : absl::OkStatus();
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
    --left_;
    Asked asked{.kind = &kinds_[Below(static_cast<int>(kinds_.size()))]};
    GenerateSpec spec = asked.kind->spec;
    spec.caller = std::string(1, static_cast<char>('a' + Below(2)));
    spec.priority = Below(3) - 1;
    asked.has_deadline = Below(5) == 0;
    if (asked.has_deadline) spec.deadline = clock_.Monotonic() + absl::Milliseconds(Below(200));
    asked.sink = std::make_shared<WatchedSink>([this](const Event& event) {
      if (std::holds_alternative<Progress>(event)) Happen();
    });
    asked.job = model_.MakeJob(*loop_, asked.sink, std::move(spec), clock_);
    const absl::Status admitted = loop_->Admit(asked.job, 0);
    if (!admitted.ok()) return CheckRefusal(admitted);
    absl::MutexLock lock(&mutex_);
    asked_.push_back(std::move(asked));
  }

  // On the loop's thread.
  void Happen() {
    switch (Below(8)) {
      case 0:
      case 1:
        if (left_ > 0) AdmitNext();
        return;
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

  static void CheckRefusal(const absl::Status& refusal) {
    const std::string reason = GetReason(refusal);
    EXPECT_TRUE(reason == "PREDICTED_OVERRUN" || reason == "QUEUE_FULL") << refusal;
  }

  static absl::Status EndOf(const Asked& one) {
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
                              absl::StrContains(end.message(), kInjected);
    EXPECT_TRUE(is_explained) << end;
    return end;
  }

  size_t asked() {
    absl::MutexLock lock(&mutex_);
    return asked_.size();
  }
  RecordingSink& sink(size_t index) {
    absl::MutexLock lock(&mutex_);
    return *asked_[index].sink;
  }

  std::mt19937 random_;
  const std::vector<Kind>& kinds_;
  LoopModel& model_;
  FakeClock& clock_;
  Faults faults_;
  std::atomic<int> left_ = kRequests;
  absl::Mutex mutex_;
  std::deque<Asked> asked_ ABSL_GUARDED_BY(mutex_);
  std::unique_ptr<PictureLoop> loop_;
};

TEST_F(RandomSchedulesTest, EachPictureIsWhatItIsAloneAndNothingIsLeft) {
  int schedules = kSchedules;
  const char* given = std::getenv("LATENTD_SCHEDULES");
  ASSERT_TRUE(given == nullptr || absl::SimpleAtoi(given, &schedules));
  const size_t allocations = device_.allocations();
  std::map<absl::StatusCode, int> ends;
  for (int seed = 0; seed < schedules; ++seed) {
    for (absl::StatusCode end : Schedule(seed, kinds_, model_, device_, metrics_, clock_).Run()) {
      ++ends[end];
    }
    EXPECT_EQ(device_.allocations(), allocations);
    EXPECT_EQ(MetricOf(registry_, metrics::kQueueDepth), 0);
    EXPECT_EQ(MetricOf(registry_, metrics::kRequestsInFlight), 0);
    ASSERT_FALSE(HasFailure()) << "seed " << seed;
  }
  for (absl::StatusCode code : {absl::StatusCode::kOk, absl::StatusCode::kCancelled,
                                absl::StatusCode::kDeadlineExceeded, absl::StatusCode::kInternal}) {
    EXPECT_GT(ends[code], 0) << code;
  }
  const auto [evaluations, rows] = HistogramOf(registry_, metrics::kStepRows);
  EXPECT_GT(rows, 2 * evaluations);
  EXPECT_GT(MetricOf(registry_, metrics::kSkippedRows), 0);
  EXPECT_GT(MetricOf(registry_, metrics::kShallowEvaluations), 0);
}

}  // namespace
}  // namespace latentd::engine
