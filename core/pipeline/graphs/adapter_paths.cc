#include "core/pipeline/graphs/adapter_paths.h"

#include <utility>

#include "absl/algorithm/container.h"
#include "core/adapters/lora/lora_paths.h"
#include "core/base/errors/status_macros.h"
#include "core/graph/graph_builder.h"
#include "core/weights/weight_set.h"

namespace latentd::pipeline {
namespace {

// The matrices as they are, in the dtype that steps read.
absl::StatusOr<graph::Graph> RecipeOf(int64_t elements, device::DType dtype) {
  graph::GraphBuilder b;
  const graph::Value matrices = b.Weight("paths/matrices", {elements});
  b.Output("result", dtype == device::DType::kF32 ? matrices : b.Cast(matrices, dtype));
  return std::move(b).Build();
}

}  // namespace

absl::StatusOr<std::shared_ptr<const AdapterPaths>> MakeAdapterPaths(
    std::vector<adapters::WeightedLora> loras, const StepPaths& paths, const std::string& user,
    weights::WeightStore& store) {
  absl::c_stable_sort(loras,
                      [](const auto& a, const auto& b) { return a.lora->name < b.lora->name; });
  ASSIGN_OR_RETURN(weights::Source source,
                   adapters::PathMatrices(loras, paths.at.sites, paths.ranks, paths.at.dtype));
  weights::SourceMap sources;
  sources.emplace("matrices", std::move(source));
  weights::WeightSet set(&store, user);
  set.Add("paths", std::move(sources));
  ASSIGN_OR_RETURN(const graph::Graph recipe,
                   RecipeOf(paths.layout().slot_elements, paths.at.dtype));
  auto made = std::make_shared<AdapterPaths>();
  ASSIGN_OR_RETURN(made->scales, adapters::PathScales(loras, paths.at.sites, paths.ranks));
  ASSIGN_OR_RETURN(weights::ResultNeeds needs, store.NeedsOf(recipe, set));
  made->key = std::move(needs.key);
  ASSIGN_OR_RETURN(made->matrices, store.Get(recipe, set));
  return made;
}

}  // namespace latentd::pipeline
