// A PictureLoop on the demo checkpoint whose runs of graphs and whose encoder a test watches, holds
// back or lets fail; and whose clock it moves.
#pragma once

#include <functional>
#include <memory>
#include <string>
#include <utility>
#include <vector>

#include "core/backends/cpu/cpu_backend.h"
#include "core/backends/reference/evaluate.h"
#include "core/compiler/graph_store.h"
#include "core/engine/engine_metrics.h"
#include "core/engine/job.h"
#include "core/engine/picture_loop.h"
#include "core/engine/reporting.h"
#include "core/pipeline/loading.h"
#include "core/weights/weight_store.h"
#include "tests/core/engine/demo_engine.h"
#include "tests/support/fake_clock.h"
#include "tests/support/recording_sink.h"
#include "tests/support/status_matchers.h"

namespace latentd::engine {

// Calls a function before each run of a graph, on the thread that runs it.
class RunWatch : public WatchedBackend {
 public:
  using OnRun = std::function<void()>;

  // `on_run` outlives the backend; it may be changed while nothing runs.
  explicit RunWatch(const OnRun& on_run)
      : WatchedBackend(*backends::cpu::CpuBackend::Create(),
                       [](const graph::Graph&) { return absl::OkStatus(); }),
        on_run_(on_run) {}

  absl::StatusOr<std::unique_ptr<backends::Executable>> LoadIf(
      std::shared_ptr<const graph::Graph> graph, absl::string_view plan,
      const weights::WeightSet& weights, const Admission& admit) override {
    auto loaded = WatchedBackend::LoadIf(std::move(graph), plan, weights, admit);
    if (!loaded.ok()) return loaded.status();
    return std::make_unique<Watched>(on_run_, *std::move(loaded));
  }

 private:
  class Watched : public backends::Executable {
   public:
    Watched(const OnRun& on_run, std::unique_ptr<backends::Executable> inner)
        : on_run_(on_run), inner_(std::move(inner)) {}

    const std::vector<backends::Port>& inputs() const override { return inner_->inputs(); }
    const std::vector<backends::Port>& outputs() const override { return inner_->outputs(); }
    absl::Status Run(absl::Span<const device::Buffer> inputs,
                     absl::Span<device::Buffer> outputs) override {
      if (on_run_) on_run_();
      return inner_->Run(inputs, outputs);
    }
    size_t arena_bytes() const override { return inner_->arena_bytes(); }
    size_t own_bytes() const override { return inner_->own_bytes(); }
    std::vector<const void*> weights() const override { return inner_->weights(); }

   private:
    const OnRun& on_run_;
    const std::unique_ptr<backends::Executable> inner_;
  };

  const OnRun& on_run_;
};

// What a loop needs and is slow to make; shared by the tests of a suite.
struct LoopModel {
  LoopModel() {
    auto loaded = pipeline::LoadPipeline({.base = SmallConfig().base}, weights, graphs);
    EXPECT_OK(loaded);
    pipeline = *std::move(loaded);
  }

  // A request for `pictures`, 64x64.
  std::shared_ptr<Job> MakeJob(PictureLoop& loop, std::shared_ptr<EventSink> sink, int pictures,
                               int steps, const Clock& clock) const {
    GenerateSpec spec = SmallSpec(steps);
    spec.request_id = "request-1";
    spec.picture.num_images_per_prompt = pictures;
    auto resolved = pipeline->Resolve(spec.picture);
    EXPECT_OK(resolved);
    spec.picture = *resolved;
    spec.picture.executed_size = pipeline::Size{64, 64};
    auto started = pipeline->Start(spec.picture);
    EXPECT_OK(started);
    auto job = std::make_shared<Job>(loop.NextHandle(), *pipeline, std::move(spec), std::move(sink),
                                     clock.Monotonic());
    job->pictures = *std::move(started);
    return job;
  }

  RunWatch::OnRun on_run;
  metrics::Registry registry;
  RunWatch backend{on_run};
  weights::WeightStore weights{backends::reference::EvaluateRecipe};
  compiler::GraphStore graphs{backend, SystemClock(), registry, nullptr,
                              compiler::GraphStore::Options()};
  std::unique_ptr<const pipeline::Pipeline> pipeline;
};

}  // namespace latentd::engine
