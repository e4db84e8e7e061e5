// Cuts a graph where it gives a value: the part behind, which reads that value instead of computing
// it.
#pragma once

#include "absl/status/statusor.h"
#include "absl/strings/string_view.h"
#include "core/graph/graph.h"

namespace latentd::graph {

// The graph without that output, which is an input of the step rate under the same name, dtype and
// shape. Nodes and inputs that only it needs are gone; the others are as they were, in their order.
// INVALID_ARGUMENT: the graph has no such output, or an input of that name.
absl::StatusOr<Graph> CutAt(const Graph& graph, absl::string_view output);

}  // namespace latentd::graph
