// Removes nodes that no output depends on. Inputs stay: they are the executable's interface.
#pragma once

#include "absl/status/statusor.h"
#include "core/graph/graph.h"
#include "core/graph/target.h"

namespace latentd::passes {

absl::StatusOr<graph::Graph> RemoveDeadCode(const graph::Graph& graph, const graph::Target& target);

}  // namespace latentd::passes
