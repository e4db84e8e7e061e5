#include "core/backends/plan.h"

#include <algorithm>
#include <utility>

#include "absl/container/flat_hash_map.h"
#include "core/base/errors/status_macros.h"
#include "core/base/threads/split_work.h"
#include "core/base/threads/threads.h"
#include "core/graph/recipes.h"

namespace latentd::backends {

namespace {

// Worth starting for so many weights, of which each takes some ten microseconds.
int ThreadsFor(size_t needs) {
  constexpr size_t kWorthAThread = 64;
  const auto most = static_cast<size_t>(std::min(UsableCpus(), weights::kMostReaders));
  return static_cast<int>(std::clamp<size_t>(needs / kWorthAThread, 1, most));
}

}  // namespace

absl::StatusOr<MemoryNeeds> NeedsOf(const graph::Graph& graph, const Plan& plan,
                                    const weights::WeightSet& weights) {
  absl::flat_hash_map<graph::ValueId, graph::Graph> recipes;
  for (graph::Recipe& recipe : graph::ExtractRecipes(graph)) {
    recipes.emplace(recipe.value, std::move(recipe.graph));
  }
  const auto needs_of = [&](const WeightNeed& need) -> absl::StatusOr<weights::ResultNeeds> {
    const auto recipe = recipes.find(need.recipe);
    if (recipe == recipes.end())
      return absl::DataLossError("the plan reads a weight of another graph");
    return weights.store().NeedsOf(recipe->second, weights,
                                   {need.form, need.bytes, need.scratch_bytes});
  };
  std::vector<absl::StatusOr<weights::ResultNeeds>> results(plan.weights.size(),
                                                            absl::UnknownError(""));
  SplitWorkOn(ThreadsFor(results.size()), static_cast<int>(results.size()), [&](int i) {
    results[static_cast<size_t>(i)] = needs_of(plan.weights[static_cast<size_t>(i)]);
  });
  MemoryNeeds needs = {plan.arena_bytes, plan.executable_bytes, {}, {}};
  for (const absl::StatusOr<weights::ResultNeeds>& result : results) {
    RETURN_IF_ERROR(result.status());
    needs.weights[result->key] = result->bytes;
    if (result->making_bytes > 0) needs.making[result->key] = result->making_bytes;
  }
  return needs;
}

}  // namespace latentd::backends
