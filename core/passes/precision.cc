#include "core/passes/precision.h"

#include <algorithm>
#include <map>
#include <utility>

#include "absl/strings/match.h"
#include "absl/strings/str_cat.h"
#include "core/graph/op_table.h"
#include "core/passes/rewrite.h"

namespace latentd::passes {
namespace {

using graph::DType;
using graph::PrecisionRule;

class PrecisionRewrite {
 public:
  PrecisionRewrite(const Graph& graph, const graph::Precision& precision)
      : graph_(graph), precision_(precision), rewrite_(graph), stays_f32_(graph.size(), false) {}

  absl::StatusOr<Graph> Run() && {
    for (ValueId id = 0; id < graph_.size(); ++id) {
      MarkF32(id);
      rewrite_.Set(id, Emit(id));
    }
    for (const graph::Output& output : graph_.outputs()) {
      rewrite_.Set(output.value, As(output.value, graph_.node(output.value).dtype));
    }
    return std::move(rewrite_).Finish();
  }

 private:
  // Weights that were named, what is made of them, and what the network casts to f32.
  void MarkF32(ValueId id) {
    const Node& node = graph_.node(id);
    if (node.op == Op::kWeight) {
      const auto begins = [&](const std::string& prefix) {
        return absl::StartsWith(node.name, prefix);
      };
      stays_f32_[id] =
          std::any_of(precision_.f32_weights.begin(), precision_.f32_weights.end(), begins);
    } else if (node.rate == Rate::kCheckpoint) {
      stays_f32_[id] = AnyStaysF32(node);
    } else {
      stays_f32_[id] = node.op == Op::kCast && node.dtype == DType::kF32 && !IsWidened(node);
    }
  }

  // A cast to f32 of what comes in the low precision, by which a network that is built in f32 reads
  // it.
  bool IsWidened(const Node& node) const {
    return node.op == Op::kCast && node.dtype == DType::kF32 &&
           graph_.node(node.operands[0]).dtype == precision_.dtype;
  }

  bool AnyStaysF32(const Node& node) const {
    return std::any_of(node.operands.begin(), node.operands.end(),
                       [&](ValueId operand) { return stays_f32_[operand]; });
  }

  // Recipes stay as they are: what reads their result casts it.
  Value Emit(ValueId id) {
    const Node& node = graph_.node(id);
    if (graph::IsLeaf(node.op) || node.rate == Rate::kCheckpoint) return rewrite_.Copy(id);
    if (IsWidened(node)) return rewrite_[node.operands[0]];
    if (IsLow(node)) return EmitWith(id, precision_.dtype);
    if (graph::RowOf(node.op).precision.rule == PrecisionRule::kAny) {
      return rewrite_.Copy(id);
    }
    if (node.op == Op::kCast) return As(node.operands[0], node.dtype);
    return EmitWith(id, DType::kF32);
  }

  bool IsWeight(ValueId id) const { return graph_.node(id).rate == Rate::kCheckpoint; }

  // True if the new value of `id` has the low precision already.
  bool WasLow(ValueId id) {
    return graph_.node(id).dtype == DType::kF32 && DTypeOf(rewrite_[id]) == precision_.dtype;
  }

  bool IsLow(const Node& node) {
    const std::vector<ValueId>& operands = node.operands;
    if (node.dtype != DType::kF32 || AnyStaysF32(node)) return false;
    switch (graph::RowOf(node.op).precision.rule) {
      case PrecisionRule::kNever:
      case PrecisionRule::kAny:
        return false;
      case PrecisionRule::kWeight:
        return IsWeight(operands[1]);
      case PrecisionRule::kTable:
        return IsWeight(operands[0]) || WasLow(operands[0]);
      case PrecisionRule::kQuery:
        return WasLow(operands[0]);
      case PrecisionRule::kAll:
        break;
    }
    return std::all_of(operands.begin(), operands.end(),
                       [&](ValueId operand) { return IsWeight(operand) || WasLow(operand); });
  }

  // The node with those of its operands that are f32 in the old graph in `dtype`.
  Value EmitWith(ValueId id, DType dtype) {
    Node node = graph_.node(id);
    for (ValueId& operand : node.operands) {
      const bool is_f32 = graph_.node(operand).dtype == DType::kF32;
      operand = (is_f32 ? As(operand, dtype) : rewrite_[operand]).id;
    }
    return rewrite_.builder().Append(std::move(node));
  }

  DType DTypeOf(Value value) { return rewrite_.builder().node(value).dtype; }

  // The new value of `id` in that dtype; one cast for all readers.
  Value As(ValueId id, DType dtype) {
    if (DTypeOf(rewrite_[id]) == dtype) return rewrite_[id];
    const auto [known, is_new] = casts_.try_emplace({id, dtype});
    if (is_new) known->second = Cast(rewrite_[id], dtype);
    return known->second;
  }

  // Casts the value; a widened one from its original.
  Value Cast(Value value, DType dtype) {
    GraphBuilder& builder = rewrite_.builder();
    const Node& node = builder.node(value);
    if (node.op != Op::kCast || node.dtype != DType::kF32) return builder.Cast(value, dtype);
    const Value original{node.operands[0]};
    const bool is_float = DTypeOf(original) == DType::kF16 || DTypeOf(original) == DType::kBF16;
    if (!is_float) return builder.Cast(value, dtype);
    return DTypeOf(original) == dtype ? original : builder.Cast(original, dtype);
  }

  const Graph& graph_;
  const graph::Precision& precision_;
  Rewrite rewrite_;
  std::vector<bool> stays_f32_;
  std::map<std::pair<ValueId, DType>, Value> casts_;
};

}  // namespace

absl::StatusOr<Graph> ChoosePrecision(const Graph& graph, const graph::Precision& precision) {
  switch (precision.dtype) {
    case DType::kF32:
      return graph;
    case DType::kBF16:
    case DType::kF16:
      return PrecisionRewrite(graph, precision).Run();
    default:
      return absl::InvalidArgumentError(absl::StrCat(
          "networks compute in f32, bf16 or f16, not in ", device::Name(precision.dtype)));
  }
}

}  // namespace latentd::passes
