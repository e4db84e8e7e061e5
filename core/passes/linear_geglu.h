// Fuses a linear and the GEGLU that alone reads it (target.h, linear_geglu): the wide intermediate,
// twice as wide as the result, is never written.
#pragma once

#include "absl/status/statusor.h"
#include "core/graph/graph.h"
#include "core/graph/target.h"

namespace latentd::passes {

absl::StatusOr<graph::Graph> FuseLinearGeglu(const graph::Graph& graph,
                                             const graph::Target& target);

}  // namespace latentd::passes
