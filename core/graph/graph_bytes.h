// The memory that a graph holds, for code that counts and bounds it.
//
// Thread-safe: a free function without state.
#pragma once

#include <cstddef>

#include "core/graph/graph.h"

namespace latentd::graph {

// Nodes with their operands, shapes, names, literals and fused bodies, and outputs; without what
// malloc adds.
size_t GraphBytes(const Graph& graph);

}  // namespace latentd::graph
