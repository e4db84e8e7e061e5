// From a graph to a program.
//
// A node of bf16 or f16 means: its operands exactly, computed in f32, the result rounded to nearest
// even. Where a kernel does not do that itself, instructions that convert stand around it. A fused
// node that is one instruction rounds its result only.
#pragma once

#include "core/backends/cpu/bound_kernel.h"
#include "core/graph/recipes.h"

namespace latentd::backends::cpu {

// `recipes` are ExtractRecipes(graph). The program points into the graph's constants.
// REQUIRES: Verify(graph) is OK.
Program Lower(const graph::Graph& graph, const std::vector<graph::Recipe>& recipes,
              const Machine& machine);

}  // namespace latentd::backends::cpu
