#include "core/passes/f8_results.h"

#include "core/passes/fusion.h"
#include "core/passes/rewrite.h"

namespace latentd::passes {
namespace {

// Empty: what quantize reads of it is a value of its own.
std::string KindOf(const Node& writer) {
  if (writer.op == Op::kLayerNorm) return graph::kLayerNormF8;
  return writer.op == Op::kGeglu ? graph::kGegluF8 : "";
}

}  // namespace

absl::StatusOr<Graph> FuseF8Results(const Graph& graph, const graph::Target& target) {
  const std::vector<ValueId> readers = SoleReaders(graph);
  std::vector<Chain> chains;
  for (ValueId id : graph.Select(Op::kQuantize)) {
    const ValueId writer = graph.node(id).operands[0];
    const std::string kind = KindOf(graph.node(writer));
    const bool fits = graph.node(id).rate != Rate::kCheckpoint && readers[writer] == id;
    if (fits && target.fused.contains(kind)) chains.push_back({kind, {writer, id}});
  }
  return chains.empty() ? absl::StatusOr<Graph>(graph) : Fuse(graph, chains);
}

}  // namespace latentd::passes
