// Makes one node of nodes that compute the same thing from the same operands.
#pragma once

#include "absl/status/statusor.h"
#include "core/graph/graph.h"
#include "core/graph/target.h"

namespace latentd::passes {

absl::StatusOr<graph::Graph> MergeCommonSubexpressions(const graph::Graph& graph,
                                                       const graph::Target& target);

}  // namespace latentd::passes
