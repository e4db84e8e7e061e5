#include "core/graph/row_split.h"

#include "absl/strings/str_cat.h"
#include "core/graph/op_table.h"

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

// OK iff no operand that rows choose parts of differs from row to row.
absl::Status CheckPools(const Graph& graph, const Node& node) {
  for (const size_t i : {size_t{2}, size_t{3}}) {
    if (HasRows(graph, node.operands[i])) {
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

int64_t AxisOf(const Node& node) {
  const auto* slice = std::get_if<SliceAttributes>(&node.attributes);
  return slice != nullptr ? slice->axis : std::get<ConcatAttributes>(node.attributes).axis;
}

absl::Status CheckAxis(int64_t axis) {
  return axis != 0 ? absl::OkStatus() : Mixes("it works along dimension 0, the rows");
}

absl::Status CheckOrder(const PermuteAttributes& permute) {
  return permute.order[0] == 0 ? absl::OkStatus() : Mixes("it moves dimension 0, the rows");
}

}  // namespace

absl::Status CheckKeepsRows(const Graph& graph, const Node& node) {
  switch (RowOf(node.op).rows.rule) {
    case RowRule::kKeeps:
      return absl::OkStatus();
    case RowRule::kFirst:
      return CheckOnly(graph, node, 0);
    case RowRule::kSecond:
      return CheckOnly(graph, node, 1);
    case RowRule::kPooled:
      return CheckPools(graph, node);
    case RowRule::kLastDimension:
      return CheckLastIsNotRows(graph, node);
    case RowRule::kBatch:
      return node.shape.rank() > 2 ? absl::OkStatus() : CheckOnly(graph, node, 0);
    case RowRule::kBroadcast:
      return CheckBroadcast(graph, node);
    case RowRule::kAxis:
      return CheckAxis(AxisOf(node));
    case RowRule::kOrder:
      return CheckOrder(std::get<PermuteAttributes>(node.attributes));
    case RowRule::kNone:
      break;
  }
  return Mixes("fused nodes come after splitting");
}

}  // namespace latentd::graph
