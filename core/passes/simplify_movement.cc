#include "core/passes/simplify_movement.h"

#include <algorithm>
#include <numeric>

#include "core/passes/rewrite.h"

namespace latentd::passes {
namespace {

bool IsIdentity(const std::vector<int64_t>& order) {
  std::vector<int64_t> identity(order.size());
  std::iota(identity.begin(), identity.end(), int64_t{0});
  return order == identity;
}

// True if the node returns its only operand, of type `operand`, unchanged.
bool ChangesNothing(const Node& node, const Node& operand) {
  switch (node.op) {
    case Op::kCast:
      return node.dtype == operand.dtype;
    case Op::kReshape:
    case Op::kSlice:
    case Op::kConcat:
      return node.operands.size() == 1 && node.shape == operand.shape;
    case Op::kPermute:
      return IsIdentity(std::get<graph::PermuteAttributes>(node.attributes).order);
    default:
      return false;
  }
}

// A permute of a permute is one: result dimension i was inner dimension outer[i].
Node Compose(Node outer, const Node& inner) {
  std::vector<int64_t> order;
  const auto& inner_order = std::get<graph::PermuteAttributes>(inner.attributes).order;
  for (int64_t i : std::get<graph::PermuteAttributes>(outer.attributes).order) {
    order.push_back(inner_order[i]);
  }
  outer.attributes = graph::PermuteAttributes{std::move(order)};
  outer.operands = inner.operands;
  return outer;
}

Value Simplify(GraphBuilder& builder, Node node) {
  if (!graph::IsLeaf(node.op)) {
    const Node& first = builder.node({node.operands[0]});
    if (node.op == Op::kReshape && first.op == Op::kReshape) node.operands = first.operands;
    if (node.op == Op::kPermute && first.op == Op::kPermute) node = Compose(node, first);
    const Value operand{node.operands[0]};
    if (ChangesNothing(node, builder.node(operand))) return operand;
  }
  return builder.Append(std::move(node));
}

}  // namespace

absl::StatusOr<Graph> SimplifyMovement(const Graph& graph, const graph::Target&) {
  Rewrite rewrite(graph);
  for (ValueId id = 0; id < graph.size(); ++id) {
    rewrite.Set(id, Simplify(rewrite.builder(), rewrite.Renumbered(id)));
  }
  return std::move(rewrite).Finish();
}

}  // namespace latentd::passes
