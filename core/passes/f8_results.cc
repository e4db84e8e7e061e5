#include "core/passes/f8_results.h"

#include "core/passes/fusion.h"
#include "core/passes/rewrite.h"

namespace latentd::passes {
namespace {

// Empty: what quantize reads of it is a value of its own.
std::string KindOf(const Node& writer) {
  if (writer.op == Op::kLayerNorm) return graph::kLayerNormF8;
  if (writer.op == Op::kAttention) return graph::kAttentionF8;
  return writer.op == Op::kGeglu ? graph::kGegluF8 : "";
}

// The chain that ends with quantize of a writer that it alone reads: with the linear before that,
// where it is GEGLU and the target computes all three at once. No node: there is none.
Chain ChainOf(const Graph& graph, const graph::Target& target, const std::vector<ValueId>& readers,
              ValueId quantize) {
  const ValueId writer = graph.node(quantize).operands[0];
  const Node& node = graph.node(writer);
  if (node.op == Op::kGeglu && target.fused.contains(graph::kF8LinearGeglu)) {
    const ValueId linear = node.operands[0];
    if (graph.node(linear).op == Op::kF8Linear && readers[linear] == writer) {
      return {graph::kF8LinearGeglu, {linear, writer, quantize}};
    }
  }
  const std::string kind = KindOf(node);
  if (!target.fused.contains(kind)) return {};
  return {kind, {writer, quantize}};
}

}  // namespace

absl::StatusOr<Graph> FuseF8Results(const Graph& graph, const graph::Target& target) {
  const std::vector<ValueId> readers = SoleReaders(graph);
  std::vector<Chain> chains;
  for (ValueId id : graph.Select(Op::kQuantize)) {
    const Node& quantize = graph.node(id);
    if (quantize.rate == Rate::kCheckpoint || readers[quantize.operands[0]] != id) continue;
    Chain chain = ChainOf(graph, target, readers, id);
    if (!chain.nodes.empty()) chains.push_back(std::move(chain));
  }
  return chains.empty() ? absl::StatusOr<Graph>(graph) : Fuse(graph, chains);
}

}  // namespace latentd::passes
