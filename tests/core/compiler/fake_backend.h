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
#include "tests/support/function_executable.h"

namespace latentd::compiler {

class FakeBackend : public backends::Backend {
 public:
  explicit FakeBackend(std::string name = "fake") { target_.name = std::move(name); }

  const graph::Target& target() const override { return target_; }
  device::Device& device() const override { return device::Host(); }
  std::string Fingerprint() const override { return fingerprint; }

  // Says that every weight is read as it is.
  absl::StatusOr<backends::Plan> MakePlan(const graph::Graph& graph) const override {
    ++plans;
    if (on_plan) on_plan();
    if (!plan_status.ok()) return plan_status;
    backends::Plan plan{absl::StrCat("plan of ", graph.size()), arena_bytes, executable_bytes, {}};
    for (const graph::ValueId id : graph.Select(graph::Op::kWeight)) {
      const auto bytes = static_cast<size_t>(graph.node(id).shape.elements()) * sizeof(float);
      plan.weights.push_back({.recipe = id, .form = "", .bytes = bytes});
    }
    return plan;
  }

  absl::Status CheckPlan(const graph::Graph& graph, const backends::Plan& plan) const override {
    if (on_check) on_check();
    if (!check_status.ok()) return check_status;
    if (plan.bytes == absl::StrCat("plan of ", graph.size())) return absl::OkStatus();
    return absl::DataLossError("the plan is another graph's");
  }

  absl::StatusOr<std::unique_ptr<backends::Executable>> Load(
      std::shared_ptr<const graph::Graph> graph, const backends::Plan& plan,
      const weights::WeightSet& weights) override {
    ++loads;
    if (on_load) on_load();
    if (!load_status.ok()) return load_status;
    if (auto status = CheckPlan(*graph, plan); !status.ok()) return status;
    if (auto status = weights.Check(*graph); !status.ok()) return status;
    const backends::ExecutableInfo info = {.inputs = backends::InputPorts(*graph),
                                           .outputs = backends::OutputPorts(*graph),
                                           .arena_bytes = 4096,
                                           .own_bytes = own_bytes,
                                           .weights = held_weights};
    return std::make_unique<testing::FunctionExecutable>(
        info, [on_run = on_run](absl::Span<const device::ConstBuffer> inputs, auto) {
          return on_run ? on_run(inputs) : absl::OkStatus();
        });
  }

  std::string WeightFingerprint() const override { return fingerprint; }
  absl::StatusOr<size_t> MakingBytes(const graph::Graph&, absl::Span<const device::ConstBuffer>,
                                     const weights::WeightFormat&) const override {
    return 0;
  }
  absl::Status MakeWeight(const graph::Graph&, absl::Span<const device::ConstBuffer>,
                          absl::string_view, const device::Buffer&, device::Stream&) override {
    return absl::UnimplementedError("what it loads reads no weight");
  }

  // Needs of plans that are made from now on.
  size_t arena_bytes = 0, executable_bytes = 0;
  mutable std::atomic<int> plans = 0;
  std::atomic<int> loads = 0;
  std::string fingerprint = "fake 1";
  absl::Status plan_status, load_status, check_status;
  std::function<void()> on_plan, on_load, on_check;
  std::function<absl::Status(absl::Span<const device::ConstBuffer>)> on_run;
  size_t own_bytes = 100;
  std::vector<const void*> held_weights;  // weights of executables that are loaded next

 private:
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
