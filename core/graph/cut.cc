#include "core/graph/cut.h"

#include <string>
#include <utility>
#include <vector>

#include "absl/algorithm/container.h"
#include "absl/strings/str_cat.h"
#include "core/graph/graph_builder.h"

namespace latentd::graph {
namespace {

// Nodes that the outputs need but for that of the cut.
std::vector<bool> NodesBehind(const Graph& graph, ValueId cut) {
  std::vector<bool> needed(graph.size(), false);
  for (const Output& output : graph.outputs()) needed[output.value] = output.value != cut;
  for (ValueId id = graph.size() - 1; id >= 0; --id) {
    if (!needed[id]) continue;
    for (ValueId operand : graph.node(id).operands) needed[operand] = operand != cut;
  }
  return needed;
}

}  // namespace

absl::StatusOr<Graph> CutAt(const Graph& graph, absl::string_view name) {
  const absl::Span<const Output> outputs = graph.outputs();
  const auto output = absl::c_find_if(outputs, [&](const Output& one) { return one.name == name; });
  if (output == outputs.end()) {
    return absl::InvalidArgumentError(absl::StrCat("the graph has no output \"", name, "\""));
  }
  for (ValueId id : graph.Select(Op::kInput)) {
    if (graph.node(id).name != name) continue;
    return absl::InvalidArgumentError(absl::StrCat("the graph has an input \"", name, "\" too"));
  }
  const ValueId cut = output->value;
  const std::vector<bool> needed = NodesBehind(graph, cut);
  GraphBuilder builder;
  std::vector<Value> values(graph.size());
  for (ValueId id = 0; id < graph.size(); ++id) {
    Node node = graph.node(id);
    if (id == cut) {
      values[id] = builder.Input(std::string(name), node.dtype, node.shape, Rate::kStep);
    } else if (needed[id]) {
      for (ValueId& operand : node.operands) operand = values[operand].id;
      values[id] = builder.Append(std::move(node));
    }
  }
  for (const Output& one : outputs) {
    if (one.name != name) builder.Output(one.name, values[one.value]);
  }
  return std::move(builder).Build();
}

}  // namespace latentd::graph
