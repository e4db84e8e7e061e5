// Fuses a group norm, the silu that alone reads it and, where there is one, the addition of
// something per channel before it (the time embedding of a residual block): target.h,
// group_norm_silu.
#pragma once

#include "absl/status/statusor.h"
#include "core/graph/graph.h"
#include "core/graph/target.h"

namespace latentd::passes {

absl::StatusOr<graph::Graph> FuseGroupNormSilu(const graph::Graph& graph,
                                               const graph::Target& target);

}  // namespace latentd::passes
