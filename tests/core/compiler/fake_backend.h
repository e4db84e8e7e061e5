// A backend that plans and loads in no time, counts both, and fails when told to: for tests of what
// stands around a backend.
#pragma once

#include <atomic>
#include <functional>
#include <memory>
#include <string>

#include "absl/strings/str_cat.h"
#include "core/backends/backend.h"
#include "core/backends/ports.h"
#include "core/graph/graph_builder.h"

namespace latentd::compiler {

class FakeExecutable : public backends::Executable {
 public:
  explicit FakeExecutable(const graph::Graph& graph)
      : inputs_(backends::InputPorts(graph)), outputs_(backends::OutputPorts(graph)) {}

  const std::vector<backends::Port>& inputs() const override { return inputs_; }
  const std::vector<backends::Port>& outputs() const override { return outputs_; }
  absl::Status Run(absl::Span<const device::Buffer>, absl::Span<device::Buffer>) override {
    return absl::OkStatus();
  }
  size_t arena_bytes() const override { return 0; }
  size_t own_bytes() const override { return 0; }

 private:
  std::vector<backends::Port> inputs_, outputs_;
};

class FakeBackend : public backends::Backend {
 public:
  const graph::Target& target() const override { return target_; }
  std::string Fingerprint() const override { return fingerprint; }

  absl::StatusOr<std::string> Plan(const graph::Graph& graph) const override {
    ++plans;
    if (on_plan) on_plan();
    if (!plan_status.ok()) return plan_status;
    return absl::StrCat("plan of ", graph.size());
  }

  absl::StatusOr<std::unique_ptr<backends::Executable>> Load(
      std::shared_ptr<const graph::Graph> graph, absl::string_view plan,
      const weights::WeightSet&) override {
    ++loads;
    if (plan != absl::StrCat("plan of ", graph->size())) {
      return absl::InvalidArgumentError("the plan is another graph's");
    }
    return std::make_unique<FakeExecutable>(*graph);
  }

  absl::StatusOr<backends::MemoryNeeds> Predict(const graph::Graph& graph, absl::string_view plan,
                                                const weights::WeightSet&) const override {
    if (plan != absl::StrCat("plan of ", graph.size())) {
      return absl::InvalidArgumentError("the plan is another graph's");
    }
    return needs;
  }

  backends::MemoryNeeds needs;
  mutable std::atomic<int> plans = 0;
  std::atomic<int> loads = 0;
  std::string fingerprint = "fake 1";
  absl::Status plan_status;
  std::function<void()> on_plan;

 private:
  graph::Target target_{.name = "fake"};
};

// silu of an input of `size` elements.
inline graph::Graph SiluGraph(int64_t size) {
  graph::GraphBuilder b;
  b.Output("y", b.Silu(b.Input("x", graph::DType::kF32, {size}, graph::Rate::kStep)));
  return *std::move(b).Build();
}

}  // namespace latentd::compiler
