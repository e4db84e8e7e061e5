#include "core/graph/graph.h"

#include "core/graph/text.h"

namespace latentd::graph {

std::vector<ValueId> Graph::Select(Op op) const {
  std::vector<ValueId> selected;
  for (ValueId id = 0; id < size(); ++id) {
    if (nodes_[id].op == op) selected.push_back(id);
  }
  return selected;
}

std::vector<int> Graph::UseCounts() const {
  std::vector<int> counts(nodes_.size(), 0);
  for (const Node& node : nodes_) {
    for (ValueId operand : node.operands) ++counts[operand];
  }
  for (const Output& output : outputs_) ++counts[output.value];
  return counts;
}

bool FusedAttributes::operator==(const FusedAttributes& other) const {
  if (kind != other.kind) return false;
  if (body == other.body) return true;
  return body != nullptr && other.body != nullptr && ToText(*body) == ToText(*other.body);
}

}  // namespace latentd::graph
