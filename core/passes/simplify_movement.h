// Removes movement that moves nothing: casts, reshapes, permutes and slices that change nothing,
// concatenations of one part, and chains of reshapes or permutes, which are one.
#pragma once

#include "absl/status/statusor.h"
#include "core/graph/graph.h"
#include "core/graph/target.h"

namespace latentd::passes {

absl::StatusOr<graph::Graph> SimplifyMovement(const graph::Graph& graph,
                                              const graph::Target& target);

}  // namespace latentd::passes
