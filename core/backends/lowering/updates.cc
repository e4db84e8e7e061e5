#include "core/backends/lowering/updates.h"

#include <algorithm>

#include "core/graph/op_table.h"

namespace latentd::backends::lowering {
namespace {

using graph::Graph;
using graph::MemoryRule;
using graph::Node;
using graph::Op;
using graph::ValueId;

MemoryRule RuleOf(const Node& node) { return graph::RowOf(node.op).memory.rule; }

bool ReadsFrom(const Node& node, size_t first_operand, const std::vector<bool>& views) {
  return std::any_of(node.operands.begin() + static_cast<ptrdiff_t>(first_operand),
                     node.operands.end(), [&](ValueId operand) { return views[operand]; });
}

// Marks the values that can lie in the memory of `input`.
std::vector<bool> ViewsOf(const Graph& graph, ValueId input) {
  std::vector<bool> views(graph.size());
  for (ValueId id = input; id < graph.size(); ++id) {
    const Node& node = graph.node(id);
    // The body of a fused node may do no more than a view.
    views[id] = id == input || (RuleOf(node) == MemoryRule::kView && views[node.operands[0]]) ||
                (node.op == Op::kFused && ReadsFrom(node, 0, views));
  }
  return views;
}

bool WorksInPlaceOf(const Graph& graph, ValueId input, ValueId writer) {
  const Node& node = graph.node(writer);
  if (RuleOf(node) != MemoryRule::kInPlace || RootOf(graph, node.operands[0]) != input)
    return false;
  if (graph.node(node.operands[0]).shape != node.shape) return false;
  const std::vector<bool> views = ViewsOf(graph, input);
  if (ReadsFrom(node, 1, views)) return false;
  for (ValueId id = writer + 1; id < graph.size(); ++id) {
    if (!views[id] && ReadsFrom(graph.node(id), 0, views)) return false;
  }
  return std::none_of(graph.outputs().begin(), graph.outputs().end(),
                      [&](const graph::Output& output) { return views[output.value]; });
}

}  // namespace

ValueId RootOf(const Graph& graph, ValueId id) {
  while (graph.node(id).op == Op::kReshape) id = graph.node(id).operands[0];
  return id;
}

std::vector<Update> FindUpdates(const Graph& graph) {
  const std::vector<ValueId> inputs = graph.Select(Op::kInput);
  std::vector<Update> updates;
  for (const graph::Output& output : graph.outputs()) {
    Update& update = updates.emplace_back();
    for (size_t i = 0; i < inputs.size(); ++i) {
      if (graph.node(inputs[i]).name != output.name) continue;
      update = {static_cast<int>(i), WorksInPlaceOf(graph, inputs[i], RootOf(graph, output.value))};
    }
  }
  return updates;
}

}  // namespace latentd::backends::lowering
