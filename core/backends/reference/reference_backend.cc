#include "core/backends/reference/reference_backend.h"

#include <ATen/Parallel.h>
#include <torch/headeronly/version.h>

#include <algorithm>
#include <cstring>

#include "absl/strings/str_cat.h"
#include "core/backends/ports.h"
#include "core/backends/reference/catch_aten.h"
#include "core/backends/reference/evaluate.h"
#include "core/backends/reference/interpret.h"
#include "core/backends/reference/tensor_view.h"
#include "core/base/errors/status_macros.h"
#include "core/device/host_device.h"
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

// Most bytes that a run takes; `weights` are bound, as inputs are.
size_t PeakBytes(const Graph& graph, absl::Span<const ValueId> weights) {
  std::vector<bool> bound(graph.size());
  for (ValueId id : weights) bound[id] = true;
  for (ValueId id : graph.Select(graph::Op::kInput)) bound[id] = true;
  return InterpretBytes(graph, bound);
}

absl::Status CheckForm(absl::string_view form) {
  if (form.empty()) return absl::OkStatus();
  return absl::UnimplementedError(absl::StrCat("the reference backend packs no weight: ", form));
}

class ReferenceExecutable : public Executable {
 public:
  ReferenceExecutable(std::shared_ptr<const Graph> graph, std::vector<BoundWeight> weights)
      : graph_(std::move(graph)), weights_(std::move(weights)) {
    std::vector<ValueId> bound;
    for (const BoundWeight& weight : weights_) {
      bound.push_back(weight.value);
      info_.weights.push_back(weight.held->data());
    }
    info_.inputs = InputPorts(*graph_);
    info_.outputs = OutputPorts(*graph_);
    info_.arena_bytes = PeakBytes(*graph_, bound);
    info_.own_bytes = sizeof(*this);
  }

  const ExecutableInfo& info() const override { return info_; }
  device::Device& device() const override { return device::Host(); }
  absl::StatusOr<std::unique_ptr<Session>> Bind(absl::Span<const device::ConstBuffer> inputs,
                                                absl::Span<const device::Buffer> outputs) override;

  absl::Status Run(absl::Span<const device::ConstBuffer> inputs,
                   absl::Span<const device::Buffer> outputs) const {
    return CatchAten("the reference backend", [&] {
      std::vector<at::Tensor> results = Interpret(*graph_, Bound(inputs));
      // A result that is an input's memory could be written before it is copied.
      for (at::Tensor& result : results) result = IsIn(result, inputs) ? result.clone() : result;
      for (size_t i = 0; i < results.size(); ++i) {
        std::memcpy(outputs[i].data(), results[i].const_data_ptr(), outputs[i].bytes());
      }
      return absl::OkStatus();
    });
  }

 private:
  static bool IsIn(const at::Tensor& tensor, absl::Span<const device::ConstBuffer> buffers) {
    const auto* data = static_cast<const char*>(tensor.const_data_ptr());
    return std::any_of(buffers.begin(), buffers.end(), [&](const device::ConstBuffer& buffer) {
      const auto* begin = static_cast<const char*>(buffer.data());
      return data >= begin && data < begin + buffer.bytes();
    });
  }

  Bindings Bound(absl::Span<const device::ConstBuffer> inputs) const {
    std::vector<at::Tensor> tensors;
    for (const device::ConstBuffer& input : inputs) tensors.push_back(View(input));
    Bindings values = BindInputs(*graph_, tensors);
    for (const BoundWeight& weight : weights_) values[weight.value] = View(*weight.held);
    return values;
  }

  std::shared_ptr<const Graph> graph_;
  std::vector<BoundWeight> weights_;
  ExecutableInfo info_;
};

class ReferenceSession : public Session {
 public:
  ReferenceSession(const ReferenceExecutable& executable,
                   absl::Span<const device::ConstBuffer> inputs,
                   absl::Span<const device::Buffer> outputs)
      : executable_(executable),
        inputs_(inputs.begin(), inputs.end()),
        outputs_(outputs.begin(), outputs.end()) {}

  absl::Status Enqueue(device::Stream& stream) override {
    static_cast<device::HostStream&>(stream).Push(
        [this] { return executable_.Run(inputs_, outputs_); });
    return absl::OkStatus();
  }

 private:
  const ReferenceExecutable& executable_;
  const std::vector<device::ConstBuffer> inputs_;
  const std::vector<device::Buffer> outputs_;
};

absl::StatusOr<std::unique_ptr<Session>> ReferenceExecutable::Bind(
    absl::Span<const device::ConstBuffer> inputs, absl::Span<const device::Buffer> outputs) {
  RETURN_IF_ERROR(CheckBuffers(info_, device(), inputs, outputs));
  return std::make_unique<ReferenceSession>(*this, inputs, outputs);
}

}  // namespace

ReferenceBackend::ReferenceBackend() { target_.name = "reference"; }

device::Device& ReferenceBackend::device() const { return device::Host(); }

std::string ReferenceBackend::Fingerprint() const {
  return absl::StrCat("reference libtorch-", TORCH_VERSION);
}

std::string ReferenceBackend::WeightFingerprint() const { return EvaluatorVersion(); }

void BringThreads() {
  at::parallel_for(0, at::get_num_threads(), 1, [](int64_t, int64_t) {});
}

absl::StatusOr<Plan> ReferenceBackend::MakePlan(const Graph& graph) const {
  Plan plan = {std::string(kPlan), 0, sizeof(ReferenceExecutable), {}};
  std::vector<ValueId> bound;
  for (const graph::Recipe& recipe : graph::ExtractRecipes(graph)) {
    const graph::Node& node = graph.node(recipe.value);
    const auto bytes = static_cast<size_t>(node.shape.elements() * device::SizeOf(node.dtype));
    plan.weights.push_back({.recipe = recipe.value, .form = "", .bytes = bytes});
    bound.push_back(recipe.value);
  }
  plan.arena_bytes = PeakBytes(graph, bound);
  return plan;
}

absl::Status ReferenceBackend::CheckPlan(const Graph& graph, const Plan& plan) const {
  ASSIGN_OR_RETURN(const Plan made, MakePlan(graph));
  if (plan == made) return absl::OkStatus();
  return absl::DataLossError("not a plan of this version of the reference backend");
}

absl::StatusOr<std::unique_ptr<Executable>> ReferenceBackend::Load(
    std::shared_ptr<const Graph> graph, const Plan& plan, const weights::WeightSet& weights) {
  RETURN_IF_ERROR(CheckPlan(*graph, plan));
  std::vector<BoundWeight> bound;
  for (const graph::Recipe& recipe : graph::ExtractRecipes(*graph)) {
    ASSIGN_OR_RETURN(weights::WeightRef held, weights.store().Get(recipe.graph, weights));
    bound.push_back({recipe.value, std::move(held)});
  }
  return std::make_unique<ReferenceExecutable>(std::move(graph), std::move(bound));
}

absl::StatusOr<size_t> ReferenceBackend::MakingBytes(
    const Graph& recipe, absl::Span<const device::ConstBuffer> host_sources,
    const weights::WeightFormat& format) const {
  RETURN_IF_ERROR(CheckForm(format.form));
  return weights::CopiedBytes(host_sources) + EvaluationBytes(recipe);
}

absl::Status ReferenceBackend::MakeWeight(const Graph& recipe,
                                          absl::Span<const device::ConstBuffer> sources,
                                          absl::string_view form, const device::Buffer& to,
                                          device::Stream& stream) {
  RETURN_IF_ERROR(CheckForm(form));
  std::vector<device::ConstBuffer> readable;
  for (const device::ConstBuffer& one : sources) readable.push_back(device::Host().Readable(one));
  static_cast<device::HostStream&>(stream).Push(
      [&recipe, sources = std::move(readable), to]() -> absl::Status {
        ASSIGN_OR_RETURN(const auto made, EvaluateRecipe(recipe, weights::Aligned(sources)));
        if (made.bytes() != to.bytes()) return absl::InternalError("a weight of another size");
        std::memcpy(to.data(), made.data(), to.bytes());
        return absl::OkStatus();
      });
  return absl::OkStatus();
}

}  // namespace latentd::backends::reference
