// Finds if a node computes each row from that row alone: what the request part of a split needs.
#pragma once

#include "absl/status/status.h"
#include "core/graph/graph.h"

namespace latentd::graph {

// INVALID_ARGUMENT says why not. Rows are consecutive blocks of dimension 0 of every request-rate
// value; checkpoint-rate operands belong to all rows.
absl::Status CheckKeepsRows(const Graph& graph, const Node& node);

}  // namespace latentd::graph
