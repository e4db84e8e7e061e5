// A Rewrite is a walk over a graph that builds another one, with the new value of each old
// one.
//
//   Rewrite rewrite(graph);
//   for (ValueId id = 0; id < graph.size(); ++id) rewrite.Copy(id);   // or Set(id, something else)
//   return std::move(rewrite).Finish();
//
// Not thread-safe. Borrows the graph.
#pragma once

#include <utility>
#include <vector>

#include "absl/status/statusor.h"
#include "core/graph/graph_builder.h"
#include "core/graph/op_table.h"

namespace latentd::passes {

using graph::Graph;
using graph::GraphBuilder;
using graph::Node;
using graph::Op;
using graph::Rate;
using graph::Value;
using graph::ValueId;

class Rewrite {
 public:
  explicit Rewrite(const Graph& from) : from_(from), values_(from.size()) {}

  const Graph& from() const { return from_; }
  GraphBuilder& builder() { return builder_; }

  // The new value of an old one. REQUIRES: it was copied or set.
  Value operator[](ValueId old) const { return values_[old]; }
  void Set(ValueId old, Value value) { values_[old] = value; }

  // The old node with its operands renumbered. REQUIRES: they were copied or set.
  Node Renumbered(ValueId old) const;

  // Appends the old node as it is.
  Value Copy(ValueId old);

  // The new graph, with the old one's outputs.
  absl::StatusOr<Graph> Finish() &&;

 private:
  const Graph& from_;
  GraphBuilder builder_;
  std::vector<Value> values_;
};

// For each value the one node that reads it, or -1 if none, several, or an output do.
std::vector<ValueId> SoleReaders(const Graph& graph);

}  // namespace latentd::passes
