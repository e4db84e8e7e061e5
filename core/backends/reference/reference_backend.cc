#include "core/backends/reference/reference_backend.h"

#include <torch/headeronly/version.h>

#include <cstring>

#include "absl/strings/str_cat.h"
#include "core/backends/ports.h"
#include "core/backends/reference/catch_aten.h"
#include "core/backends/reference/interpret.h"
#include "core/backends/reference/tensor_view.h"
#include "core/base/status_macros.h"
#include "core/graph/recipes.h"
#include "core/weights/weight_store.h"

namespace latentd::backends::reference {
namespace {

using graph::Graph;
using graph::ValueId;

constexpr absl::string_view kPlan = "latentd reference plan 1";

// A recipe's result and the value it stands for.
struct BoundWeight {
  ValueId value;
  weights::WeightRef held;
};

// Of a run; `weights` are bound, as inputs are.
size_t PeakBytes(const Graph& graph, absl::Span<const ValueId> weights) {
  std::vector<bool> bound(graph.size());
  for (ValueId id : weights) bound[id] = true;
  for (ValueId id : graph.Select(graph::Op::kInput)) bound[id] = true;
  return InterpretBytes(graph, bound);
}

class ReferenceExecutable : public Executable {
 public:
  ReferenceExecutable(std::shared_ptr<const Graph> graph, std::vector<BoundWeight> weights)
      : graph_(std::move(graph)),
        weights_(std::move(weights)),
        inputs_(InputPorts(*graph_)),
        outputs_(OutputPorts(*graph_)) {
    std::vector<ValueId> bound;
    for (const BoundWeight& weight : weights_) bound.push_back(weight.value);
    peak_bytes_ = PeakBytes(*graph_, bound);
  }

  const std::vector<Port>& inputs() const override { return inputs_; }
  const std::vector<Port>& outputs() const override { return outputs_; }

  absl::Status Run(absl::Span<const device::Buffer> inputs,
                   absl::Span<device::Buffer> outputs) override {
    RETURN_IF_ERROR(CheckBuffers("input", inputs_, inputs));
    RETURN_IF_ERROR(CheckBuffers("output", outputs_, outputs));
    return CatchAten("the reference backend", [&] {
      const std::vector<at::Tensor> results = Interpret(*graph_, Bound(inputs));
      for (size_t i = 0; i < results.size(); ++i) {
        std::memcpy(outputs[i].data(), results[i].const_data_ptr(), outputs[i].bytes());
      }
      return absl::OkStatus();
    });
  }

  size_t arena_bytes() const override { return peak_bytes_; }
  size_t own_bytes() const override { return sizeof(*this); }
  std::vector<const void*> weights() const override {
    std::vector<const void*> weights;
    for (const BoundWeight& weight : weights_) weights.push_back(weight.held->data());
    return weights;
  }

 private:
  Bindings Bound(absl::Span<const device::Buffer> inputs) const {
    std::vector<at::Tensor> tensors;
    for (const device::Buffer& input : inputs) tensors.push_back(View(input));
    Bindings values = BindInputs(*graph_, tensors);
    for (const BoundWeight& weight : weights_) values[weight.value] = View(*weight.held);
    return values;
  }

  std::shared_ptr<const Graph> graph_;
  std::vector<BoundWeight> weights_;
  std::vector<Port> inputs_, outputs_;
  size_t peak_bytes_ = 0;
};

absl::Status CheckPlan(absl::string_view plan) {
  if (plan == kPlan) return absl::OkStatus();
  return absl::DataLossError("not a plan of this version of the reference backend");
}

}  // namespace

ReferenceBackend::ReferenceBackend() { target_.name = "reference"; }

std::string ReferenceBackend::Fingerprint() const {
  return absl::StrCat("reference libtorch-", TORCH_VERSION);
}

absl::StatusOr<std::string> ReferenceBackend::Plan(const Graph&) const {
  return std::string(kPlan);
}

absl::StatusOr<std::unique_ptr<Executable>> ReferenceBackend::LoadIf(
    std::shared_ptr<const Graph> graph, absl::string_view plan, const weights::WeightSet& weights,
    const Admission& admit) {
  RETURN_IF_ERROR(CheckPlan(plan));
  if (admit) {
    ASSIGN_OR_RETURN(const MemoryNeeds needs, Predict(*graph, plan, weights));
    RETURN_IF_ERROR(admit(needs));
  }
  std::vector<BoundWeight> bound;
  for (const graph::Recipe& recipe : graph::ExtractRecipes(*graph)) {
    ASSIGN_OR_RETURN(weights::WeightRef held, weights.store().Get(recipe.graph, weights));
    bound.push_back({recipe.value, std::move(held)});
  }
  return std::make_unique<ReferenceExecutable>(std::move(graph), std::move(bound));
}

absl::StatusOr<MemoryNeeds> ReferenceBackend::Predict(const Graph& graph, absl::string_view plan,
                                                      const weights::WeightSet& weights) const {
  RETURN_IF_ERROR(CheckPlan(plan));
  MemoryNeeds needs;
  std::vector<ValueId> bound;
  for (const graph::Recipe& recipe : graph::ExtractRecipes(graph)) {
    ASSIGN_OR_RETURN(const weights::ResultNeeds result,
                     weights.store().NeedsOf(recipe.graph, weights));
    needs.Add(result);
    bound.push_back(recipe.value);
  }
  needs.arena_bytes = PeakBytes(graph, bound);
  needs.executable_bytes = sizeof(ReferenceExecutable);
  return needs;
}

}  // namespace latentd::backends::reference
