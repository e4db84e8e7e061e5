#include "core/passes/f8_bounds.h"

#include <cmath>
#include <limits>

namespace latentd::passes {
namespace {

constexpr float kGroupRoot = 1024;
// Just above the depth of GELU's valley.
constexpr float kLeastGate = 0.17f;

}  // namespace

Value F8Bounds::Exact(ValueId old) {
  const Graph& graph = rewrite_.from();
  while (graph.node(old).op == Op::kCast && graph.node(old).rate == Rate::kCheckpoint) {
    old = graph.node(old).operands[0];
  }
  return Copied(old);
}

Value F8Bounds::Copied(ValueId old) {
  if (rewrite_[old].id >= 0) return rewrite_[old];
  for (const ValueId operand : rewrite_.from().node(old).operands) Copied(operand);
  return rewrite_.Copy(old);
}

ValueId F8Bounds::Unmoved(ValueId old) const {
  const Graph& graph = rewrite_.from();
  while (graph.node(old).op == Op::kReshape || graph.node(old).op == Op::kPermute) {
    old = graph.node(old).operands[0];
  }
  return old;
}

// In two steps, so that many threads can share the first.
Value F8Bounds::Largest(Value value) {
  GraphBuilder& b = rewrite_.builder();
  if (b.shape(value).rank() == 0) return value;
  const Value rows = b.RowNorm(value, {});
  const Value all = b.RowNorm(b.Reshape(rows, {1, b.shape(value)[0]}), {});
  return b.Reshape(all, {});
}

Value F8Bounds::Of(ValueId old) {
  const Node& node = rewrite_.from().node(old);
  switch (node.op) {
    case Op::kReshape:
    case Op::kPermute:
    case Op::kCast:
    case Op::kSilu:  // |silu(x)| <= |x|
      return Of(node.operands[0]);
    case Op::kLayerNorm:
      return OfNorm(old, std::sqrt(static_cast<float>(node.shape[-1] - 1)));
    case Op::kGroupNorm:
      return OfNorm(old, kGroupRoot);
    case Op::kGeglu:
      return OfGeglu(node.operands[0]);
    case Op::kAttention: {
      const Value columns = OfColumns(Unmoved(node.operands[2]));
      return columns.id < 0 ? columns : Largest(columns);
    }
    default:
      return graph::kNone;
  }
}

Value F8Bounds::OfNorm(ValueId norm, float root) {
  const Node& node = rewrite_.from().node(norm);
  for (const ValueId operand : {node.operands[1], node.operands[2]}) {
    if (rewrite_.from().node(operand).rate != Rate::kCheckpoint) return graph::kNone;
  }
  GraphBuilder& b = rewrite_.builder();
  const Value gamma = Absolute(Exact(node.operands[1])), beta = Absolute(Exact(node.operands[2]));
  return Times(Largest(b.Add(Times(gamma, root), beta)), kSlack);
}

Value F8Bounds::OfGeglu(ValueId linear) {
  GraphBuilder& b = rewrite_.builder();
  const Value columns = OfColumns(linear);
  if (columns.id < 0) return columns;
  const int64_t half = b.shape(columns)[0] / 2;
  const Value values = b.Slice(columns, 0, 0, half), gates = b.Slice(columns, 0, half, 2 * half);
  const float most = std::numeric_limits<float>::max();
  return Largest(b.Mul(values, b.Clamp(gates, kLeastGate, most)));
}

Value F8Bounds::OfColumns(ValueId linear) {
  const Graph& graph = rewrite_.from();
  const Node& node = graph.node(linear);
  if (node.op != Op::kLinear) return graph::kNone;
  const Node& norm = graph.node(node.operands[0]);
  bool known = norm.op == Op::kLayerNorm;
  for (size_t i = 1; i < node.operands.size(); ++i) {
    known = known && graph.node(node.operands[i]).rate == Rate::kCheckpoint;
  }
  for (size_t i = 1; known && i < norm.operands.size(); ++i) {
    known = graph.node(norm.operands[i]).rate == Rate::kCheckpoint;
  }
  if (!known) return graph::kNone;
  GraphBuilder& b = rewrite_.builder();
  const Value weight = Exact(node.operands[1]);
  const Value gamma = Exact(norm.operands[1]), beta = Exact(norm.operands[2]);
  const int64_t out = b.shape(weight)[0], in = b.shape(weight)[1];
  const Value length = b.RowNorm(b.Mul(weight, gamma), {.euclidean = true});
  const Value bias = node.operands.size() > 2 ? Exact(node.operands[2]) : graph::kNone;
  const Value shift =
      b.RowNorm(b.Reshape(b.Linear(b.Reshape(beta, {1, in}), weight, bias), {out, 1}), {});
  return Times(b.Add(Times(length, std::sqrt(static_cast<float>(in))), shift), kSlack);
}

Value F8Bounds::Absolute(Value vector) {
  return rewrite_.builder().RowNorm(vector, {});  // each element is a row
}

Value F8Bounds::Times(Value value, float factor) {
  GraphBuilder& b = rewrite_.builder();
  return b.Mul(value, b.Scalar(factor));
}

}  // namespace latentd::passes
