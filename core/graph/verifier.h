// Rules for every Graph. GraphBuilder makes only such graphs; Verify checks those that come
// from elsewhere: a text, an artifact, a pass.
//
// * Operands come before the node that reads them; there is at least one output.
// * dtype and shape of every node are what the op table infers, and its rate is the fastest of its
//   operands' (constants and weights: kCheckpoint; inputs: kRequest or kStep, as declared).
// * Names of leaves are unique, and so are names of outputs: 1 to 256 printable ASCII characters,
//   no quote and no backslash.
// * An output with the name of an input updates it (graph.h): it has its dtype and shape.
// * A fused node's body is such a graph without weights and fused nodes, and its inputs and output
//   are named as FusedAttributes says.
//
// Free functions; thread-safe.
#pragma once

#include "absl/status/status.h"
#include "absl/strings/string_view.h"
#include "core/graph/graph.h"

namespace latentd::graph {

// INVALID_ARGUMENT names the node and what is wrong with it.
absl::Status Verify(const Graph& graph);

// The part of the above that concerns one leaf, one name, one kind of a fused node.
absl::Status CheckLeaf(const Node& leaf);
absl::Status CheckName(absl::string_view name);

// OK iff every output with the name of an input has its dtype and shape.
// REQUIRES: outputs' values are indices into `nodes`.
absl::Status CheckUpdates(absl::Span<const Node> nodes, absl::Span<const Output> outputs);

// The rate of a non-leaf node. REQUIRES: its operands are indices into `nodes`.
Rate FastestOperand(const Node& node, absl::Span<const Node> nodes);

}  // namespace latentd::graph
