#include "core/passes/linear_geglu.h"

#include "core/passes/fusion.h"
#include "core/passes/rewrite.h"

namespace latentd::passes {

absl::StatusOr<Graph> FuseLinearGeglu(const Graph& graph, const graph::Target& target) {
  if (!target.fused.contains(graph::kLinearGeglu)) return graph;
  const std::vector<ValueId> readers = SoleReaders(graph);
  std::vector<Chain> chains;
  for (ValueId id : graph.Select(Op::kLinear)) {
    const bool fits = graph.node(id).rate != Rate::kCheckpoint && readers[id] >= 0 &&
                      graph.node(readers[id]).op == Op::kGeglu;
    if (fits) chains.push_back({graph::kLinearGeglu, {id, readers[id]}});
  }
  return Fuse(graph, chains);
}

}  // namespace latentd::passes
