// Engines on the demo checkpoint, with small pictures and few steps, and a backend that a test
// holds back or lets fail.
#pragma once

#include <omp.h>

#include <functional>
#include <iterator>
#include <memory>
#include <string>
#include <utility>
#include <vector>

#include "absl/algorithm/container.h"
#include "absl/synchronization/mutex.h"
#include "core/backends/backend.h"
#include "core/backends/cpu/cpu_backend.h"
#include "core/engine/api/config.h"
#include "core/engine/api/events.h"
#include "core/engine/api/generate_spec.h"
#include "core/engine/engine.h"
#include "core/engine/local_engine.h"
#include "tests/support/recording_sink.h"
#include "tests/support/source_directory.h"
#include "tests/support/status_matchers.h"

namespace latentd::engine {

// The base alone, one bucket, no guidance: as few graphs as there can be. Requests may compile.
inline Config SmallConfig() {
  const std::string demo = ::latentd::testing::SourcePath("deploy/demo-model");
  Config config{.base = demo + "/base", .queue_capacity = 4, .buckets = {{64, 64}}, .rows = {1}};
  // As a backend takes that a test makes: engines of either kind have the same fingerprint.
  config.threads = omp_get_max_threads();
  config.allow_cold_requests = true;
  return config;
}

inline Config EnsembleConfig() {
  Config config = SmallConfig();
  config.refiner = ::latentd::testing::SourcePath("deploy/demo-model/refiner");
  return config;
}

inline GenerateSpec SmallSpec(int steps = 2) {
  GenerateSpec spec;
  spec.picture.prompt = "a red circle on a blue background";
  spec.picture.width = spec.picture.height = 64;
  spec.picture.num_inference_steps = steps;
  spec.picture.guidance_scale = 1;
  spec.picture.seed = 7;
  return spec;
}

inline GenerateSpec SpecOf(pipeline::Size size, pipeline::BucketPolicy policy) {
  GenerateSpec spec = SmallSpec();
  spec.picture.width = size.width;
  spec.picture.height = size.height;
  spec.picture.bucket_policy = policy;
  return spec;
}

template <typename T>
std::vector<T> Only(const std::vector<Event>& events) {
  std::vector<T> only;
  for (const Event& event : events) {
    if (const T* found = std::get_if<T>(&event)) only.push_back(*found);
  }
  return only;
}

// All events of the request; none if it is refused.
inline std::vector<Event> RunOn(Engine& engine, GenerateSpec spec) {
  const auto sink = std::make_shared<testing::RecordingSink>();
  const auto handle = engine.Submit(std::move(spec), sink);
  EXPECT_OK(handle);
  return handle.ok() ? sink->WaitForEnd() : std::vector<Event>();
}

inline absl::Status SubmitTo(Engine& engine, GenerateSpec spec) {
  return engine.Submit(std::move(spec), std::make_shared<testing::RecordingSink>()).status();
}

// How the request ends: refused where it is submitted, or later, as by a loop that is the first to
// see that its deadline has passed.
inline absl::Status EndOf(Engine& engine, GenerateSpec spec) {
  const auto sink = std::make_shared<testing::RecordingSink>();
  const auto handle = engine.Submit(std::move(spec), sink);
  if (!handle.ok()) return handle.status();
  const Event end = sink->WaitForEnd().back();
  const auto* failed = std::get_if<Failed>(&end);
  return failed == nullptr ? absl::OkStatus() : failed->status;
}

// How long that took; zero where the model did nothing of that stage.
inline absl::Duration TimeOf(const Timings& timings, Stage stage,
                             const std::string& model = "base") {
  for (const StageTime& one : timings.stages) {
    if (one.stage == stage && one.model == model) return one.time;
  }
  return absl::ZeroDuration();
}

inline std::vector<prometheus::ClientMetric> SeriesOf(const metrics::Registry& registry,
                                                      const metrics::Family& family) {
  std::vector<prometheus::ClientMetric> all;
  for (const prometheus::MetricFamily& collected : registry.Collect()) {
    if (collected.name == family.name) absl::c_copy(collected.metric, std::back_inserter(all));
  }
  return all;
}

// Sum over all series of a counter or gauge whose labels have `label` among them ("": all).
inline double MetricOf(const metrics::Registry& registry, const metrics::Family& family,
                       const std::string& label = "") {
  double sum = 0;
  for (const prometheus::ClientMetric& metric : SeriesOf(registry, family)) {
    bool wanted = label.empty();
    for (const auto& with : metric.label) wanted |= with.value == label;
    if (wanted) sum += metric.counter.value + metric.gauge.value;  // one of them is 0
  }
  return sum;
}

// How many values a histogram has, and their sum, over all its series.
inline std::pair<double, double> HistogramOf(const metrics::Registry& registry,
                                             const metrics::Family& family) {
  std::pair<double, double> all;
  for (const prometheus::ClientMetric& metric : SeriesOf(registry, family)) {
    all.first += static_cast<double>(metric.histogram.sample_count);
    all.second += metric.histogram.sample_sum;
  }
  return all;
}

// How many of them are above `bound`, one of the histogram's.
inline double CountAbove(const metrics::Registry& registry, const metrics::Family& family,
                         double bound) {
  double above = 0;
  for (const prometheus::ClientMetric& metric : SeriesOf(registry, family)) {
    above += static_cast<double>(metric.histogram.sample_count);
    for (const prometheus::ClientMetric::Bucket& bucket : metric.histogram.bucket) {
      if (bucket.upper_bound == bound) above -= static_cast<double>(bucket.cumulative_count);
    }
  }
  return above;
}

inline double MetricOf(Engine& engine, const metrics::Family& family,
                       const std::string& label = "") {
  return MetricOf(engine.metrics(), family, label);
}

inline int64_t CompilationsOf(Engine& engine) {
  return static_cast<int64_t>(MetricOf(engine, metrics::kGraphCompilations));
}

// True if an output of the graph is as wide or high as that: for the VAE's decoder only.
inline bool DrawsSide(const graph::Graph& graph, int64_t side) {
  for (const graph::Output& output : graph.outputs()) {
    for (int64_t dimension : graph.node(output.value).shape.dims()) {
      if (dimension == side) return true;
    }
  }
  return false;
}

// Asks a test before it plans.
class WatchedBackend : public backends::Backend {
 public:
  using Watch = std::function<absl::Status(const graph::Graph&)>;

  static std::unique_ptr<WatchedBackend> Create(Watch watch) {
    return std::make_unique<WatchedBackend>(*backends::cpu::CpuBackend::Create(), std::move(watch));
  }
  WatchedBackend(std::unique_ptr<backends::cpu::CpuBackend> inner, Watch watch)
      : inner_(std::move(inner)), watch_(std::move(watch)) {}

  const graph::Target& target() const override { return inner_->target(); }
  device::Device& device() const override { return inner_->device(); }
  // Asked for each graph that is declared, by the thread that builds it.
  std::string Fingerprint() const override {
    if (on_declare) on_declare();
    return inner_->Fingerprint();
  }
  absl::StatusOr<backends::Plan> MakePlan(const graph::Graph& graph) const override {
    if (absl::Status status = watch_(graph); !status.ok()) return status;
    return inner_->MakePlan(graph);
  }
  absl::Status CheckPlan(const graph::Graph& graph, const backends::Plan& plan) const override {
    return inner_->CheckPlan(graph, plan);
  }
  absl::StatusOr<std::unique_ptr<backends::Executable>> Load(
      std::shared_ptr<const graph::Graph> graph, const backends::Plan& plan,
      const weights::WeightSet& weights) override {
    return inner_->Load(std::move(graph), plan, weights);
  }
  std::string WeightFingerprint() const override { return inner_->WeightFingerprint(); }
  absl::StatusOr<size_t> MakingBytes(const graph::Graph& recipe,
                                     absl::Span<const device::ConstBuffer> sources,
                                     const weights::WeightFormat& format) const override {
    return inner_->MakingBytes(recipe, sources, format);
  }
  absl::Status MakeWeight(const graph::Graph& recipe, absl::Span<const device::ConstBuffer> sources,
                          absl::string_view form, const device::Buffer& to,
                          device::Stream& stream) override {
    return inner_->MakeWeight(recipe, sources, form, to, stream);
  }
  std::function<void()> on_declare;  // set while nothing is declared

  int64_t arena_bytes() const { return static_cast<int64_t>(inner_->arena_bytes()); }

 private:
  const std::unique_ptr<backends::cpu::CpuBackend> inner_;
  const Watch watch_;
};

// Stops who comes by until a test opens it.
class Gate {
 public:
  void Pass() {
    absl::MutexLock lock(&mutex_);
    if (open_) return;
    ++waiting_;
    mutex_.Await(absl::Condition(&open_));
  }
  void WaitForSomebody() {
    absl::MutexLock lock(&mutex_);
    mutex_.AwaitWithTimeout(absl::Condition(
                                +[](int* waiting) { return *waiting > 0; }, &waiting_),
                            testing::kLongestWait);
  }
  void Open() {
    absl::MutexLock lock(&mutex_);
    open_ = true;
  }
  void Close() {
    absl::MutexLock lock(&mutex_);
    open_ = false;
    waiting_ = 0;
  }

 private:
  absl::Mutex mutex_;
  bool open_ = true;
  int waiting_ = 0;
};

}  // namespace latentd::engine
