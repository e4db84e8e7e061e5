#include "core/backends/reference/evaluate.h"

#include <ATen/Version.h>
#include <torch/headeronly/version.h>

#include "absl/strings/str_cat.h"
#include "core/backends/reference/catch_aten.h"
#include "core/backends/reference/interpret.h"
#include "core/backends/reference/tensor_view.h"
#include "core/base/errors/status_macros.h"

namespace latentd::backends::reference {
namespace {

absl::Status CheckSources(const graph::Graph& recipe,
                          absl::Span<const device::ConstBuffer> sources) {
  const std::vector<graph::ValueId> weights = recipe.Select(graph::Op::kWeight);
  if (weights.size() != sources.size() || recipe.outputs().size() != 1) {
    return absl::InvalidArgumentError(absl::StrCat(
        "a recipe with ", weights.size(), " weights and ", recipe.outputs().size(),
        " outputs cannot be evaluated to one result from ", sources.size(), " sources"));
  }
  for (size_t i = 0; i < sources.size(); ++i) {
    const graph::Node& weight = recipe.node(weights[i]);
    if (weight.shape.elements() == sources[i].elements()) continue;
    return absl::InvalidArgumentError(absl::StrCat("weight ", weight.name, " has shape ",
                                                   weight.shape.ToString(), ", its source ",
                                                   sources[i].shape().ToString()));
  }
  return absl::OkStatus();
}

// Views of a source (reshape, slice) share its memory, which `result` does not keep alive: a whole
// source is returned as itself, a part of one is copied.
device::ConstBuffer ResultOf(const at::Tensor& result,
                             absl::Span<const device::ConstBuffer> sources) {
  const auto* data = static_cast<const char*>(result.const_data_ptr());
  for (const device::ConstBuffer& source : sources) {
    const auto* begin = static_cast<const char*>(source.data());
    if (data < begin || data >= begin + source.bytes()) continue;
    return result.nbytes() == source.bytes() ? source.Reshaped(device::Shape(result.sizes().vec()))
                                             : ToBuffer(result.clone());
  }
  return ToBuffer(result);
}

}  // namespace

absl::StatusOr<device::ConstBuffer> EvaluateRecipe(const graph::Graph& recipe,
                                                   absl::Span<const device::ConstBuffer> sources) {
  RETURN_IF_ERROR(CheckSources(recipe, sources));
  return CatchAten("evaluating a recipe", [&]() -> absl::StatusOr<device::ConstBuffer> {
    const std::vector<graph::ValueId> weights = recipe.Select(graph::Op::kWeight);
    std::vector<at::Tensor> tensors;
    for (size_t i = 0; i < sources.size(); ++i) {
      tensors.push_back(View(sources[i].Reshaped(recipe.node(weights[i]).shape)));
    }
    return ResultOf(Interpret(recipe, BindWeights(recipe, tensors)).front(), sources);
  });
}

size_t EvaluationBytes(const graph::Graph& recipe) {
  std::vector<bool> bound(recipe.size());
  for (const graph::ValueId id : recipe.Select(graph::Op::kWeight)) bound[id] = true;
  return InterpretBytes(recipe, bound);
}

std::string EvaluatorVersion() {
  return absl::StrCat("libtorch-", TORCH_VERSION, " ", at::get_cpu_capability());
}

}  // namespace latentd::backends::reference
