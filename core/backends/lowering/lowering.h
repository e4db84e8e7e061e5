// From a graph to a program, for every backend that has kernels of its own.
//
// A node of bf16 or f16 means: its operands exactly, computed in f32, the result rounded to nearest
// even. Where a kernel does not do that itself, instructions that convert stand around it. A fused
// node that is one instruction rounds its result only.
#pragma once

#include <vector>

#include "core/backends/lowering/kernel_rules.h"
#include "core/backends/lowering/program.h"
#include "core/graph/recipes.h"

namespace latentd::backends::lowering {

// `recipes` are ExtractRecipes(graph). The program points into the graph's constants.
// REQUIRES: Verify(graph) is OK.
Program Lower(const graph::Graph& graph, const std::vector<graph::Recipe>& recipes,
              const KernelRules& rules);

}  // namespace latentd::backends::lowering
