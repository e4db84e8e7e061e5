// A backend's decisions about a graph, and the memory that its executables take for that. A plan is
// all that Load needs beside the graph and the weights, and all that predicting needs: nothing is
// bound or loaded to know what a graph needs.
//
// Values; free function. Thread-safe.
#pragma once

#include <cstddef>
#include <map>
#include <string>
#include <vector>

#include "absl/status/statusor.h"
#include "core/graph/graph.h"
#include "core/weights/weight_set.h"
#include "core/weights/weight_store.h"

namespace latentd::backends {

// A recipe's result that an executable reads. Which bytes that is depends on the weight set too.
struct WeightNeed {
  graph::ValueId recipe = 0;  // the value of the graph that it makes (graph/recipes.h)
  std::string form;           // as WeightFormat has it; "": plain
  size_t bytes = 0;           // size of the result
  size_t scratch_bytes = 0;   // temporary bytes of packing, as WeightFormat has it

  bool operator==(const WeightNeed&) const = default;
};

struct Plan {
  std::string bytes;            // kernel choices and memory plan, as the backend writes them
  size_t arena_bytes = 0;       // used by one run; shared by all executables of a backend
  size_t executable_bytes = 0;  // beside arena and weights
  std::vector<WeightNeed> weights;

  bool operator==(const Plan&) const = default;
};

// Memory that a plan's graph would hold with one weight set.
struct MemoryNeeds {
  size_t arena_bytes = 0;
  size_t executable_bytes = 0;
  // Bytes of the recipes' results by their keys in WeightStore: what several graphs read is there
  // once.
  std::map<std::string, size_t> weights;
  // Temporary bytes of making each of them, beside the result; they are made one at a time. Weights
  // that take none are left out.
  std::map<std::string, size_t> making;
};

// No weight is made. DATA_LOSS: the plan is not one of this graph; INVALID_ARGUMENT, NOT_FOUND: the
// weights do not fit the graph.
absl::StatusOr<MemoryNeeds> NeedsOf(const graph::Graph& graph, const Plan& plan,
                                    const weights::WeightSet& weights);

}  // namespace latentd::backends
