// From a graph to a program.
#pragma once

#include "absl/status/statusor.h"
#include "core/backends/cpu/program.h"
#include "core/graph/recipes.h"

namespace latentd::backends::cpu {

// `recipes` are ExtractRecipes(graph). The program points into the graph's constants.
// UNIMPLEMENTED names an op whose operands have a dtype that the CPU backend does not compute in.
absl::StatusOr<Program> Lower(const graph::Graph& graph, const std::vector<graph::Recipe>& recipes);

}  // namespace latentd::backends::cpu
