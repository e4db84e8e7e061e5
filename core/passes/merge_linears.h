// Merges linears of one operand (queries, keys and values), if the target says that it pays, into
// one with concatenated weights, and slices of its result. The concatenation is of the checkpoint
// rate, so it is a weight recipe, made once. Very many linears become several wide ones.
#pragma once

#include "absl/status/statusor.h"
#include "core/graph/graph.h"
#include "core/graph/target.h"

namespace latentd::passes {

absl::StatusOr<graph::Graph> MergeLinears(const graph::Graph& graph, const graph::Target& target);

}  // namespace latentd::passes
