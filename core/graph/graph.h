// The IR: a list of nodes in topological order over typed values. A node makes exactly one value,
// so a value is named by its node's index.
//
// A Graph is immutable: GraphBuilder makes it, passes make new ones from it. Share it as
// shared_ptr<const Graph>; any thread may read it.
#pragma once

#include <cstdint>
#include <string>
#include <vector>

#include "absl/strings/string_view.h"
#include "absl/types/span.h"
#include "core/graph/op.h"

namespace latentd::graph {

// Index of the node that makes the value.
using ValueId = int32_t;

// How often a value changes: the fastest of what it depends on. Weights and constants are
// kCheckpoint.
enum class Rate : uint8_t { kCheckpoint, kRequest, kStep };

struct Node {
  Op op = Op::kInput;
  std::vector<ValueId> operands;  // each less than this node's own index
  Attributes attributes;
  DType dtype = DType::kF32;
  Shape shape;
  Rate rate = Rate::kCheckpoint;
  std::string name;  // name of an input or a weight; empty otherwise
};

// An output with the name of an input updates it: what runs the graph again may give the one as the
// other, or have both in one memory. It has the input's dtype and shape.
struct Output {
  std::string name;
  ValueId value = 0;
  bool operator==(const Output&) const = default;
};

class Graph {
 public:
  // Takes what GraphBuilder has checked; Verify (verifier.h) checks it again.
  Graph(std::vector<Node> nodes, std::vector<Output> outputs)
      : nodes_(std::move(nodes)), outputs_(std::move(outputs)) {}

  absl::Span<const Node> nodes() const { return nodes_; }
  const Node& node(ValueId id) const { return nodes_[id]; }
  int size() const { return static_cast<int>(nodes_.size()); }

  // In the order they were declared; names are unique.
  absl::Span<const Output> outputs() const { return outputs_; }

  // Nodes of one op in order: Select(Op::kInput), Select(Op::kWeight).
  std::vector<ValueId> Select(Op op) const;

  // How many nodes and outputs read each value.
  std::vector<int> UseCounts() const;

 private:
  std::vector<Node> nodes_;
  std::vector<Output> outputs_;
};

}  // namespace latentd::graph
