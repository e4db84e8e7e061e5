#include "core/passes/upsample_conv2d.h"

#include "core/passes/rewrite.h"

namespace latentd::passes {
namespace {

bool DoublesBothSides(const Graph& graph, const Node& upsample) {
  const auto& to = std::get<graph::UpsampleAttributes>(upsample.attributes);
  const graph::Shape& from = graph.node(upsample.operands[0]).shape;
  const int height = to.layout == graph::Layout::kNchw ? 2 : 1;
  return to.height == 2 * from[height] && to.width == 2 * from[height + 1];
}

// True if `node` is a 3x3 convolution of the image `x` that keeps its size.
bool Is3x3(const Graph& graph, const Node& node, ValueId x, graph::Layout layout) {
  if (node.op != Op::kConv2d || node.operands[0] != x) return false;
  const Node& weight = graph.node(node.operands[1]);
  const graph::Conv2dAttributes wanted{.stride = 1, .padding = {1, 1, 1, 1}, .layout = layout};
  return weight.rate == Rate::kCheckpoint && weight.shape[2] == 3 && weight.shape[3] == 3 &&
         std::get<graph::Conv2dAttributes>(node.attributes) == wanted;
}

}  // namespace

std::vector<Chain> UpsampleConvolutions(const Graph& graph) {
  const std::vector<ValueId> readers = SoleReaders(graph);
  std::vector<Chain> chains;
  for (ValueId id : graph.Select(Op::kUpsampleNearest)) {
    const Node& upsample = graph.node(id);
    if (upsample.rate == Rate::kCheckpoint || readers[id] < 0) continue;
    const auto layout = std::get<graph::UpsampleAttributes>(upsample.attributes).layout;
    if (DoublesBothSides(graph, upsample) && Is3x3(graph, graph.node(readers[id]), id, layout)) {
      chains.push_back({graph::kUpsampleConv2d, {id, readers[id]}});
    }
  }
  return chains;
}

absl::StatusOr<Graph> FuseUpsampleConv2d(const Graph& graph, const graph::Target& target) {
  if (!target.fused.contains(graph::kUpsampleConv2d)) return graph;
  return Fuse(graph, UpsampleConvolutions(graph));
}

}  // namespace latentd::passes
