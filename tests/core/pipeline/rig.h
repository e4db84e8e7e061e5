// An engine's belongings: backend, stores and a pipeline of the demo checkpoint; and small pictures
// with few steps.
#pragma once

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <memory>
#include <optional>
#include <string>
#include <utility>
#include <vector>

#include "core/backends/reference/reference_backend.h"
#include "core/base/clock.h"
#include "core/cache/disk_cache.h"
#include "core/compiler/graph_store.h"
#include "core/metrics/registry.h"
#include "core/pipeline/loading.h"
#include "core/pipeline/pipeline.h"
#include "core/weights/weight_store.h"
#include "tests/core/pipeline/doctored_checkpoint.h"
#include "tests/support/on_host.h"
#include "tests/support/run_unit.h"
#include "tests/support/status_matchers.h"

namespace latentd::pipeline {

inline LoadOptions Demo() { return {.base = testing::kDemoBase, .refiner = testing::kDemoRefiner}; }

inline PictureSpec SmallSpec() {
  PictureSpec spec;
  spec.prompt = "a red circle on a blue background";
  spec.width = 64;
  spec.height = 72;
  spec.num_inference_steps = 4;
  spec.seed = 3;
  return spec;
}

// A request as tests ask for it: a spec with what comes beside it.
struct Asked : PictureSpec {
  Asked() = default;
  Asked(PictureSpec spec) : PictureSpec(std::move(spec)) {}  // NOLINT(google-explicit-constructor)

  Inputs inputs;
  std::optional<Size> executed_size;  // absent: the images' own
};

inline std::vector<float> ValuesOf(const device::Buffer& latents) {
  const device::Buffer copy = testing::OnHost(latents);
  const auto values = copy.as<float>();
  return {values.begin(), values.end()};
}

class Rig {
 public:
  // `cache_dir` empty: nothing survives.
  explicit Rig(const LoadOptions& options = Demo(), const std::string& cache_dir = "",
               std::unique_ptr<backends::Backend> backend =
                   std::make_unique<backends::reference::ReferenceBackend>())
      : backend(std::move(backend)),
        disk(Open(cache_dir, registry)),
        graphs(*this->backend, SystemClock(), registry, disk.get(),
               compiler::GraphStore::Options()) {
    auto loaded = LoadPipeline(options, weights, graphs);
    EXPECT_OK(loaded);
    if (loaded.ok()) pipeline = *std::move(loaded);
  }

  absl::StatusOr<SharedPlan> Resolve(const Asked& asked) const {
    return pipeline->Resolve(asked, asked.inputs, [&](const PictureSpec& resolved) {
      return asked.executed_size.value_or(Size{*resolved.width, *resolved.height});
    });
  }

  absl::StatusOr<std::vector<std::unique_ptr<Picture>>> Begin(const Asked& asked) const {
    auto plan = Resolve(asked);
    if (!plan.ok()) return plan.status();
    auto pictures = pipeline->Start(*std::move(plan), std::make_shared<Inputs>(asked.inputs));
    if (!pictures.ok()) return pictures;
    for (const GraphHandle& graph : pictures->front()->request->graphs) kept.push_back(graph);
    return pictures;
  }

  std::unique_ptr<Picture> Start(const Asked& spec) const {
    auto pictures = Begin(spec);
    EXPECT_OK(pictures);
    return std::move(pictures.value().front());
  }

  // A picture whose first step is next.
  std::unique_ptr<Picture> BeginSteps(const Asked& spec) const {
    auto picture = Start(spec);
    EXPECT_OK(testing::RunUnit(*picture));
    EXPECT_EQ(picture->next, UnitKind::kStep);
    return picture;
  }

  // Compiles the first model's steps of that size, for each of the numbers of rows.
  void MakeSteps(Size size, const std::vector<int>& row_counts) const {
    ModelGraphs& steps = pipeline->first().graphs();
    for (int rows : row_counts) {
      kept.push_back(steps.Find({.shape = {rows, size.height / 8, size.width / 8}}).value());
      EXPECT_OK(steps.Get(kept.back()));
    }
  }

  absl::Status Run(Picture& picture) const {
    absl::Status status;
    while (status.ok() && picture.next != UnitKind::kDone) status = testing::RunUnit(picture);
    return status;
  }

  // Finished.
  std::unique_ptr<Picture> Finish(const Asked& spec) const {
    auto picture = Start(spec);
    EXPECT_OK(Run(*picture));
    return picture;
  }

  std::vector<float> Latents(const Asked& spec) const {
    const auto picture = Finish(spec);
    return ValuesOf(picture->latents);
  }

  int64_t compilations() const { return graphs.totals().compilations; }

  metrics::Registry registry;
  const std::unique_ptr<backends::Backend> backend;
  weights::WeightStore weights{*backend};
  std::unique_ptr<cache::DiskCache> disk;
  compiler::GraphStore graphs;
  std::unique_ptr<const Pipeline> pipeline;
  // Graphs of drawn pictures, so that they stay compiled.
  mutable std::vector<GraphHandle> kept;

 private:
  static std::unique_ptr<cache::DiskCache> Open(const std::string& directory,
                                                metrics::Registry& registry) {
    if (directory.empty()) return nullptr;
    auto opened = cache::DiskCache::Open({.directory = directory}, SystemClock(), registry);
    EXPECT_OK(opened);
    return opened.ok() ? *std::move(opened) : nullptr;
  }
};

}  // namespace latentd::pipeline
