// Makes one fused node of a chain of nodes: what the fusing passes share.
#pragma once

#include <string>
#include <vector>

#include "absl/status/statusor.h"
#include "core/graph/graph.h"

namespace latentd::passes {

// Nodes in order, each but the first reading the one before it. Nothing else reads any of them but
// the last, whose value is the fused node's. At least two.
struct Chain {
  std::string kind;
  std::vector<graph::ValueId> nodes;
};

// The graph with every chain replaced by a kFused node (operands and body as target.h says).
// REQUIRES: no node is in two chains.
absl::StatusOr<graph::Graph> Fuse(const graph::Graph& graph, const std::vector<Chain>& chains);

}  // namespace latentd::passes
