#include "core/passes/dead_code.h"

#include "core/passes/rewrite.h"

namespace latentd::passes {
namespace {

std::vector<bool> Live(const Graph& graph) {
  std::vector<bool> live(graph.size(), false);
  for (const graph::Output& output : graph.outputs()) live[output.value] = true;
  for (ValueId id = graph.size() - 1; id >= 0; --id) {
    if (graph.node(id).op == Op::kInput) live[id] = true;
    if (!live[id]) continue;
    for (ValueId operand : graph.node(id).operands) live[operand] = true;
  }
  return live;
}

}  // namespace

absl::StatusOr<Graph> RemoveDeadCode(const Graph& graph, const graph::Target&) {
  const std::vector<bool> live = Live(graph);
  Rewrite rewrite(graph);
  for (ValueId id = 0; id < graph.size(); ++id) {
    if (live[id]) rewrite.Copy(id);
  }
  return std::move(rewrite).Finish();
}

}  // namespace latentd::passes
