#include "core/passes/group_norm_silu.h"

#include "core/passes/fusion.h"
#include "core/passes/rewrite.h"

namespace latentd::passes {
namespace {

// True if `part` has one number for each channel of an image, in all rows or in each.
bool IsPerChannel(const graph::Shape& part, const graph::Shape& image, graph::Layout layout) {
  if (part.rank() != 4 || (part[0] != 1 && part[0] != image[0])) return false;
  const int channels = layout == graph::Layout::kNchw ? 1 : 3;
  for (int i = 1; i < 4; ++i) {
    if (part[i] != (i == channels ? image[i] : 1)) return false;
  }
  return true;
}

// True if `id` adds a value per channel to an image that the group norm reads.
bool AddsChannels(const Graph& graph, ValueId id, graph::Layout layout) {
  const Node& add = graph.node(id);
  if (add.op != Op::kAdd) return false;
  const graph::Shape& a = graph.node(add.operands[0]).shape;
  const graph::Shape& b = graph.node(add.operands[1]).shape;
  return (a == add.shape && IsPerChannel(b, add.shape, layout)) ||
         (b == add.shape && IsPerChannel(a, add.shape, layout));
}

// The quantize that alone reads it, where the target writes 8-bit floats of group norms; or -1.
ValueId Quantizer(const Graph& graph, const graph::Target& target,
                  const std::vector<ValueId>& readers, ValueId silu) {
  const ValueId reader = readers[silu];
  const bool has = target.fused.contains(graph::kGroupNormSiluF8) && reader >= 0 &&
                   graph.node(reader).op == Op::kQuantize;
  return has ? reader : -1;
}

}  // namespace

absl::StatusOr<Graph> FuseGroupNormSilu(const Graph& graph, const graph::Target& target) {
  if (!target.fused.contains(graph::kGroupNormSilu)) return graph;
  const std::vector<ValueId> readers = SoleReaders(graph);
  std::vector<Chain> chains;
  for (ValueId id : graph.Select(Op::kGroupNorm)) {
    const Node& norm = graph.node(id);
    if (norm.rate == Rate::kCheckpoint || readers[id] < 0) continue;
    if (graph.node(readers[id]).op != Op::kSilu) continue;
    Chain chain{graph::kGroupNormSilu, {id, readers[id]}};
    const auto layout = std::get<graph::GroupNormAttributes>(norm.attributes).layout;
    if (const ValueId last = Quantizer(graph, target, readers, readers[id]); last >= 0) {
      chain.kind = graph::kGroupNormSiluF8;
      chain.nodes.push_back(last);
    }
    const ValueId image = norm.operands[0];
    if (readers[image] == id && AddsChannels(graph, image, layout)) {
      chain.nodes.insert(chain.nodes.begin(), image);
    }
    chains.push_back(std::move(chain));
  }
  return Fuse(graph, chains);
}

}  // namespace latentd::passes
