#include "core/passes/rewrite.h"

namespace latentd::passes {

Node Rewrite::Renumbered(ValueId old) const {
  Node node = from_.node(old);
  for (ValueId& operand : node.operands) operand = values_[operand].id;
  return node;
}

Value Rewrite::Copy(ValueId old) {
  values_[old] = builder_.Append(Renumbered(old));
  return values_[old];
}

absl::StatusOr<Graph> Rewrite::Finish() && {
  for (const graph::Output& output : from_.outputs()) {
    builder_.Output(output.name, values_[output.value]);
  }
  return std::move(builder_).Build();
}

std::vector<ValueId> SoleReaders(const Graph& graph) {
  const std::vector<int> uses = graph.UseCounts();
  std::vector<ValueId> readers(graph.size(), -1);
  for (ValueId id = 0; id < graph.size(); ++id) {
    for (ValueId operand : graph.node(id).operands) {
      if (uses[operand] == 1) readers[operand] = id;
    }
  }
  return readers;
}

}  // namespace latentd::passes
