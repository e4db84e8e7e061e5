// Fuses quantize into what alone it reads, a layer norm, attention or GEGLU, where the target
// writes 8-bit floats of them, and with GEGLU the linear that it alone reads.
#pragma once

#include "absl/status/statusor.h"
#include "core/graph/graph.h"
#include "core/graph/target.h"

namespace latentd::passes {

absl::StatusOr<graph::Graph> FuseF8Results(const graph::Graph& graph, const graph::Target& target);

}  // namespace latentd::passes
