#include "core/graph/row_split.h"

#include "absl/strings/str_cat.h"

namespace latentd::graph {
namespace {

template <typename... Parts>
absl::Status Mixes(const Parts&... parts) {
  return absl::InvalidArgumentError(absl::StrCat(parts...));
}

bool HasRows(const Graph& graph, ValueId id) { return graph.node(id).rate != Rate::kCheckpoint; }

// OK iff only the operand at `index` differs from row to row.
absl::Status CheckOnly(const Graph& graph, const Node& node, size_t index) {
  for (size_t i = 0; i < node.operands.size(); ++i) {
    if (i != index && HasRows(graph, node.operands[i])) {
      return Mixes("operand ", i, " must not depend on the request");
    }
  }
  return absl::OkStatus();
}

absl::Status CheckLastIsNotRows(const Graph& graph, const Node& node) {
  if (graph.node(node.operands[0]).shape.rank() >= 2) return CheckOnly(graph, node, 0);
  return Mixes("it mixes rows, the only dimension of its operand");
}

// An operand of lower rank is broadcast along dimension 0, so its own first dimension is no row.
absl::Status CheckBroadcast(const Graph& graph, const Node& node) {
  for (ValueId operand : node.operands) {
    if (HasRows(graph, operand) && graph.node(operand).shape.rank() != node.shape.rank()) {
      return Mixes("it spreads rows along another dimension");
    }
  }
  return absl::OkStatus();
}

absl::Status CheckAxis(int64_t axis) {
  return axis != 0 ? absl::OkStatus() : Mixes("it works along dimension 0, the rows");
}

}  // namespace

absl::Status CheckKeepsRows(const Graph& graph, const Node& node) {
  switch (node.op) {
    case Op::kConv2d:
    case Op::kGroupNorm:
      return CheckOnly(graph, node, 0);
    case Op::kLinear:
    case Op::kLayerNorm:
    case Op::kSoftmax:
    case Op::kGeglu:
      return CheckLastIsNotRows(graph, node);
    case Op::kEmbedding:
      return CheckOnly(graph, node, 1);
    case Op::kMatmul:
      return node.shape.rank() > 2 ? absl::OkStatus() : CheckOnly(graph, node, 0);
    case Op::kAdd:
    case Op::kSub:
    case Op::kMul:
    case Op::kDiv:
      return CheckBroadcast(graph, node);
    case Op::kConcat:
      return CheckAxis(std::get<ConcatAttributes>(node.attributes).axis);
    case Op::kSlice:
      return CheckAxis(std::get<SliceAttributes>(node.attributes).axis);
    case Op::kPermute:
      return std::get<PermuteAttributes>(node.attributes).order[0] == 0
                 ? absl::OkStatus()
                 : Mixes("it moves dimension 0, the rows");
    case Op::kFused:
      return Mixes("fused nodes come after splitting");
    default:  // elementwise, or by row already
      return absl::OkStatus();
  }
}

}  // namespace latentd::graph
