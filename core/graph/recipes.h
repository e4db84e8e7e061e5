// Weight recipes: the checkpoint-rate part of a graph, cut into one small graph for each of its
// results that something faster reads. An executable graph keeps its recipes inline (weight -> cast
// -> concat -> ...); a backend asks WeightStore for each recipe's result when it loads, and runs
// only the rest.
#pragma once

#include <cstddef>
#include <vector>

#include "core/graph/graph.h"

namespace latentd::graph {

struct Recipe {
  ValueId value;  // in the graph it was cut from
  Graph graph;    // leaves: weights and constants; one output, "result"
};

// One recipe for each checkpoint-rate value that a faster node or an output reads, in order of
// value.
std::vector<Recipe> ExtractRecipes(const Graph& graph);

// Facts that a backend needs to make a recipe's result.

const Node& ResultOf(const Graph& recipe);
size_t ResultBytes(const Graph& recipe);
// True if the result is a tensor as it is stored.
bool IsStored(const Graph& recipe);
// The same computation of inputs instead of weights, in the same order, none of which is a recipe
// of its own.
Graph OfInputs(const Graph& recipe);

}  // namespace latentd::graph
