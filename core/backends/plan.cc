#include "core/backends/plan.h"

#include <utility>

#include "absl/container/flat_hash_map.h"
#include "core/base/errors/status_macros.h"
#include "core/graph/recipes.h"

namespace latentd::backends {

absl::StatusOr<MemoryNeeds> NeedsOf(const graph::Graph& graph, const Plan& plan,
                                    const weights::WeightSet& weights) {
  absl::flat_hash_map<graph::ValueId, graph::Graph> recipes;
  for (graph::Recipe& recipe : graph::ExtractRecipes(graph)) {
    recipes.emplace(recipe.value, std::move(recipe.graph));
  }
  MemoryNeeds needs = {plan.arena_bytes, plan.executable_bytes, {}, {}};
  for (const WeightNeed& need : plan.weights) {
    const auto recipe = recipes.find(need.recipe);
    if (recipe == recipes.end())
      return absl::DataLossError("the plan reads a weight of another graph");
    ASSIGN_OR_RETURN(const weights::ResultNeeds result,
                     weights.store().NeedsOf(recipe->second, weights,
                                             {need.form, need.bytes, need.scratch_bytes}));
    needs.weights[result.key] = result.bytes;
    if (result.making_bytes > 0) needs.making[result.key] = result.making_bytes;
  }
  return needs;
}

}  // namespace latentd::backends
