// A PictureLoop on the demo checkpoint whose runs of graphs and whose encoder a test watches, holds
// back, lets fail or leaves out; and whose clock it moves.
#pragma once

#include <gtest/gtest.h>

#include <algorithm>
#include <cstdint>
#include <functional>
#include <memory>
#include <string>
#include <utility>
#include <vector>

#include "core/backends/cpu/cpu_backend.h"
#include "core/compiler/graph_store.h"
#include "core/engine/loop/picture_loop.h"
#include "core/engine/requests/engine_metrics.h"
#include "core/engine/requests/job.h"
#include "core/pipeline/loading.h"
#include "core/weights/weight_store.h"
#include "tests/core/engine/demo_engine.h"
#include "tests/support/fake_clock.h"
#include "tests/support/recording_sink.h"
#include "tests/support/status_matchers.h"

namespace latentd::engine {

// Memory that a run reads or writes, where work on the device finds it.
template <typename Byte>
struct RunPort {
  absl::Span<Byte> row(int64_t index) const {
    const size_t size = bytes.size() / rows;
    return bytes.subspan(index * size, size);
  }

  std::string name;
  absl::Span<Byte> bytes;
  int64_t rows = 1;  // the first of its dimensions
};

struct RunPorts {
  int step_rows = 0;  // 0: it is no step
  std::vector<RunPort<const uint8_t>> inputs;
  std::vector<RunPort<uint8_t>> outputs;
};

// Calls functions for each run of a graph. They may be changed while nothing runs.
struct OnRun {
  std::function<void()> enqueue;         // on the thread that enqueues it
  std::function<absl::Status()> refuse;  // likewise, before it; an error is of enqueueing it
  std::function<absl::Status()> work;    // on the device, before it; an error is its own
  // Called for steps of so many rows: to bind one, and as `refuse`.
  std::function<absl::Status(int rows)> bind_step, refuse_step;
  // Else a run does `instead`, if that is there, and writes that all is finite. Of what is bound
  // from then on.
  bool computes = true;
  std::function<void(const RunPorts&)> instead;
};

// Rows of a step; 0: it is another graph.
inline int StepRowsOf(const backends::ExecutableInfo& info) {
  for (const backends::Port& port : info.inputs) {
    if (port.name == "state") return static_cast<int>(port.shape[0]);
  }
  return 0;
}

class RunWatch : public WatchedBackend {
 public:
  // `on_run` and `device` outlive the backend.
  RunWatch(const OnRun& on_run, device::HostDevice& device)
      : WatchedBackend(*backends::cpu::CpuBackend::Create({.device = &device}),
                       [](const graph::Graph&) { return absl::OkStatus(); }),
        on_run_(on_run) {}

  absl::StatusOr<std::unique_ptr<backends::Executable>> Load(
      std::shared_ptr<const graph::Graph> graph, const backends::Plan& plan,
      const weights::WeightSet& weights) override {
    auto loaded = WatchedBackend::Load(std::move(graph), plan, weights);
    if (!loaded.ok()) return loaded.status();
    return std::make_unique<Watched>(on_run_, *std::move(loaded));
  }

 private:
  class WatchedSession : public backends::Session {
   public:
    // `ports` are of who does not compute; who does has `inner`.
    WatchedSession(const OnRun& on_run, RunPorts ports, std::unique_ptr<backends::Session> inner)
        : on_run_(on_run), ports_(std::move(ports)), inner_(std::move(inner)) {}

    absl::Status Enqueue(device::Stream& stream) override {
      if (on_run_.enqueue) on_run_.enqueue();
      if (on_run_.refuse) {
        if (absl::Status refused = on_run_.refuse(); !refused.ok()) return refused;
      }
      if (on_run_.refuse_step && ports_.step_rows > 0) {
        absl::Status refused = on_run_.refuse_step(ports_.step_rows);
        if (!refused.ok()) return refused;
      }
      static_cast<device::HostStream&>(stream).Push(
          [this] { return on_run_.work ? on_run_.work() : absl::OkStatus(); });
      if (inner_ != nullptr) return inner_->Enqueue(stream);
      static_cast<device::HostStream&>(stream).Push([this] {
        if (on_run_.instead) on_run_.instead(ports_);
        for (const RunPort<uint8_t>& output : ports_.outputs) {
          if (output.name == "finite") std::fill(output.bytes.begin(), output.bytes.end(), 1);
        }
        return absl::OkStatus();
      });
      return absl::OkStatus();
    }

   private:
    const OnRun& on_run_;
    const RunPorts ports_;
    const std::unique_ptr<backends::Session> inner_;
  };

  class Watched : public backends::Executable {
   public:
    Watched(const OnRun& on_run, std::unique_ptr<backends::Executable> inner)
        : on_run_(on_run), inner_(std::move(inner)) {}

    const backends::ExecutableInfo& info() const override { return inner_->info(); }
    device::Device& device() const override { return inner_->device(); }
    absl::StatusOr<std::unique_ptr<backends::Session>> Bind(
        absl::Span<const device::ConstBuffer> inputs,
        absl::Span<const device::Buffer> outputs) override {
      const int step_rows = StepRowsOf(info());
      if (on_run_.bind_step && step_rows > 0) {
        if (absl::Status refused = on_run_.bind_step(step_rows); !refused.ok()) return refused;
      }
      RunPorts ports = {.step_rows = step_rows};
      if (!on_run_.computes) {
        AddPorts(info().inputs, inputs, ports.inputs);
        AddPorts(info().outputs, outputs, ports.outputs);
        return std::make_unique<WatchedSession>(on_run_, std::move(ports), nullptr);
      }
      auto bound = inner_->Bind(inputs, outputs);
      if (!bound.ok()) return bound.status();
      return std::make_unique<WatchedSession>(on_run_, std::move(ports), *std::move(bound));
    }

   private:
    template <typename Buffer, typename Byte>
    void AddPorts(const std::vector<backends::Port>& ports, absl::Span<const Buffer> buffers,
                  std::vector<RunPort<Byte>>& to) const {
      const auto& device = static_cast<const device::HostDevice&>(inner_->device());
      for (size_t i = 0; i < buffers.size(); ++i) {
        const device::Shape& shape = ports[i].shape;
        to.push_back({ports[i].name,
                      {static_cast<Byte*>(device.AddressOf(buffers[i])), buffers[i].bytes()},
                      shape.rank() == 0 ? 1 : shape[0]});
      }
    }

    const OnRun& on_run_;
    const std::unique_ptr<backends::Executable> inner_;
  };

  const OnRun& on_run_;
};

// Tells a test of each event, on the thread that sends it.
class WatchedSink : public ::latentd::testing::RecordingSink {
 public:
  explicit WatchedSink(std::function<void(const Event&)> watch) : watch_(std::move(watch)) {}
  void OnEvent(Event event) override {
    watch_(event);
    ::latentd::testing::RecordingSink::OnEvent(std::move(event));
  }

 private:
  const std::function<void(const Event&)> watch_;
};

// Parts of a loop that are slow to make; shared by the tests of a suite.
struct LoopModel {
  explicit LoopModel(device::HostDevice& device = device::Host(), std::vector<int> row_counts = {},
                     const Config& config = SmallConfig(), bool split = false)
      : row_counts(std::move(row_counts)), backend(on_run, device) {
    auto loaded = pipeline::LoadPipeline({.base = config.base,
                                          .refiner = config.refiner,
                                          .models = config.models,
                                          .row_counts = this->row_counts,
                                          .split = split,
                                          .feature_cache = config.feature_cache},
                                         weights, graphs);
    EXPECT_OK(loaded);
    pipeline = *std::move(loaded);
  }

  // A request for `pictures`, 64x64.
  std::shared_ptr<Job> MakeJob(PictureLoop& loop, std::shared_ptr<EventSink> sink, int pictures,
                               int steps, const Clock& clock) const {
    GenerateSpec spec = SmallSpec(steps);
    spec.picture.num_images_per_prompt = pictures;
    return MakeJob(loop, std::move(sink), std::move(spec), clock);
  }
  std::shared_ptr<Job> MakeJob(PictureLoop& loop, std::shared_ptr<EventSink> sink,
                               GenerateSpec spec, const Clock& clock) const {
    spec.request_id = "request-1";
    const pipeline::SharedInputs inputs = std::exchange(spec.inputs, nullptr);
    const pipeline::SharedPlan plan =
        pipeline->Resolve(spec.picture, inputs == nullptr ? pipeline::Inputs() : *inputs).value();
    auto started = pipeline->Start(plan, inputs);
    EXPECT_OK(started);
    auto job = std::make_shared<Job>(loop.NextHandle(), plan, std::move(spec), std::move(sink),
                                     clock.Monotonic());
    job->pictures = *std::move(started);
    return job;
  }

  // The graphs of all row counts, so that pictures of that size find them, and of split steps.
  void MakeReady(pipeline::Size size) { MakeReady(size, row_counts); }
  void MakeReady(pipeline::Size size, const std::vector<int>& counts,
                 pipeline::ModelId leader = {}) {
    for (int rows : counts) MakeReady(pipeline->GraphsOf(leader, size, rows).value());
    MakeReady(pipeline->SplitStepsOf(leader, size).value());
  }
  void MakeReady(const std::vector<pipeline::GraphHandle>& needed) {
    for (const pipeline::GraphHandle& graph : needed) {
      EXPECT_OK(graphs.Get(graph));
      kept.push_back(graph);
    }
  }

  const std::vector<int> row_counts;
  OnRun on_run;
  metrics::Registry registry;
  RunWatch backend;
  weights::WeightStore weights{backend};
  compiler::GraphStore graphs{backend, SystemClock(), registry, nullptr,
                              compiler::GraphStore::Options()};
  std::unique_ptr<const pipeline::Pipeline> pipeline;
  std::vector<pipeline::GraphHandle> kept;
};

// Tests of loops on one model, with a clock and metrics of each test's own.
class LoopTest : public ::testing::Test {
 protected:
  static void SetUpTestSuite() { model_ = std::make_unique<LoopModel>(); }
  static void TearDownTestSuite() { model_.reset(); }
  ~LoopTest() override { model_->on_run = {}; }

  std::shared_ptr<Job> Request(PictureLoop& loop, std::shared_ptr<EventSink> sink, int pictures = 1,
                               int steps = 2) {
    return model_->MakeJob(loop, std::move(sink), pictures, steps, clock_);
  }

  // All events of one more request.
  std::vector<Event> RunOn(PictureLoop& loop) {
    const auto sink = std::make_shared<::latentd::testing::RecordingSink>();
    EXPECT_OK(loop.Admit(Request(loop, sink), 0));
    const std::vector<Event> events = sink->WaitForEnd();
    sink->Clear();
    return events;
  }
  double Count(const metrics::Family& family) { return MetricOf(registry_, family); }

  static inline std::unique_ptr<LoopModel> model_;
  ::latentd::testing::FakeClock clock_;
  metrics::Registry registry_;
  EngineMetrics metrics_{registry_};  // its one model label is "other"
};

}  // namespace latentd::engine
