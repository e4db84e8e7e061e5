// A backend that plans and loads in no time, counts what it does, and fails when told to: for tests
// of what stands around a backend.
#pragma once

#include <atomic>
#include <functional>
#include <memory>
#include <string>
#include <utility>
#include <vector>

#include "absl/strings/str_cat.h"
#include "core/backends/backend.h"
#include "core/backends/ports.h"
#include "core/graph/graph_builder.h"

namespace latentd::compiler {

class FakeExecutable : public backends::Executable {
 public:
  FakeExecutable(const graph::Graph& graph, size_t own_bytes, std::vector<const void*> weights,
                 std::function<absl::Status(absl::Span<const device::Buffer>)> on_run)
      : inputs_(backends::InputPorts(graph)),
        outputs_(backends::OutputPorts(graph)),
        own_bytes_(own_bytes),
        weights_(std::move(weights)),
        on_run_(std::move(on_run)) {}

  const std::vector<backends::Port>& inputs() const override { return inputs_; }
  const std::vector<backends::Port>& outputs() const override { return outputs_; }
  absl::Status Run(absl::Span<const device::Buffer> inputs,
                   absl::Span<device::Buffer> outputs) override {
    if (auto status = backends::CheckBuffers("input", inputs_, inputs); !status.ok()) return status;
    if (auto status = backends::CheckBuffers("output", outputs_, outputs); !status.ok()) {
      return status;
    }
    return on_run_ ? on_run_(inputs) : absl::OkStatus();
  }
  size_t arena_bytes() const override { return 4096; }
  size_t own_bytes() const override { return own_bytes_; }
  std::vector<const void*> weights() const override { return weights_; }

 private:
  std::vector<backends::Port> inputs_, outputs_;
  size_t own_bytes_;
  std::vector<const void*> weights_;
  std::function<absl::Status(absl::Span<const device::Buffer>)> on_run_;
};

class FakeBackend : public backends::Backend {
 public:
  explicit FakeBackend(std::string name = "fake") { target_.name = std::move(name); }

  const graph::Target& target() const override { return target_; }
  std::string Fingerprint() const override { return fingerprint; }

  absl::StatusOr<std::string> Plan(const graph::Graph& graph) const override {
    ++plans;
    if (on_plan) on_plan();
    if (!plan_status.ok()) return plan_status;
    return absl::StrCat("plan of ", graph.size());
  }

  absl::StatusOr<std::unique_ptr<backends::Executable>> LoadIf(
      std::shared_ptr<const graph::Graph> graph, absl::string_view plan,
      const weights::WeightSet& weights, const Admission& admit) override {
    if (admit) {
      if (auto status = admit(needs); !status.ok()) return status;
    }
    ++loads;
    if (on_load) on_load();
    if (!load_status.ok()) return load_status;
    if (auto status = Check(*graph, plan, weights); !status.ok()) return status;
    return std::make_unique<FakeExecutable>(*graph, own_bytes, held_weights, on_run);
  }

  absl::StatusOr<backends::MemoryNeeds> Predict(const graph::Graph& graph, absl::string_view plan,
                                                const weights::WeightSet& weights) const override {
    if (!predict_status.ok()) return predict_status;
    if (auto status = Check(graph, plan, weights); !status.ok()) return status;
    return needs;
  }

  backends::MemoryNeeds needs;
  mutable std::atomic<int> plans = 0;
  std::atomic<int> loads = 0;
  std::string fingerprint = "fake 1";
  absl::Status plan_status, load_status, predict_status;
  std::function<void()> on_plan, on_load;
  std::function<absl::Status(absl::Span<const device::Buffer>)> on_run;
  size_t own_bytes = 100;
  std::vector<const void*> held_weights;  // of what is loaded next

 private:
  static absl::Status Check(const graph::Graph& graph, absl::string_view plan,
                            const weights::WeightSet& weights) {
    if (plan != absl::StrCat("plan of ", graph.size())) {
      return absl::DataLossError("the plan is another graph's");
    }
    return weights.Check(graph);
  }

  graph::Target target_;
};

// silu of an input of `size` elements.
inline graph::Graph SiluGraph(int64_t size) {
  graph::GraphBuilder b;
  b.Output("y", b.Silu(b.Input("x", graph::DType::kF32, {size}, graph::Rate::kStep)));
  return *std::move(b).Build();
}

// The sum of an input and the weight "part/w".
inline graph::Graph BiasGraph(int64_t size) {
  graph::GraphBuilder b;
  const graph::Value x = b.Input("x", graph::DType::kF32, {size}, graph::Rate::kStep);
  b.Output("y", b.Add(x, b.Weight("part/w", {size})));
  return *std::move(b).Build();
}

}  // namespace latentd::compiler
