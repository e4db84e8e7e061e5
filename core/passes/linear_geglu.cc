#include "core/passes/linear_geglu.h"

#include <utility>
#include <vector>

#include "core/passes/fusion.h"
#include "core/passes/rewrite.h"

namespace latentd::passes {
namespace {

// True for a low-rank path beside that linear, of what the linear reads.
bool IsPathOf(const Graph& graph, ValueId path, ValueId linear) {
  if (path < 0 || graph.node(path).op != Op::kLowRank) return false;
  const Node& node = graph.node(path);
  return node.operands[0] == linear && node.operands[1] == graph.node(linear).operands[0];
}

}  // namespace

absl::StatusOr<Graph> FuseLinearGeglu(const Graph& graph, const graph::Target& target) {
  if (!target.fused.contains(graph::kLinearGeglu)) return graph;
  const std::vector<ValueId> readers = SoleReaders(graph);
  std::vector<Chain> chains;
  for (ValueId id : graph.Select(Op::kLinear)) {
    if (graph.node(id).rate == Rate::kCheckpoint) continue;
    std::vector<ValueId> chain = {id};
    if (IsPathOf(graph, readers[id], id)) chain.push_back(readers[id]);
    const ValueId geglu = readers[chain.back()];
    if (geglu < 0 || graph.node(geglu).op != Op::kGeglu) continue;
    chain.push_back(geglu);
    chains.push_back({graph::kLinearGeglu, std::move(chain)});
  }
  return Fuse(graph, chains);
}

}  // namespace latentd::passes
