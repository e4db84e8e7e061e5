#include "core/passes/f8_sites.h"

#include <algorithm>
#include <map>
#include <vector>

#include "absl/strings/match.h"
#include "absl/strings/str_split.h"
#include "absl/strings/strip.h"
#include "core/base/errors/status_macros.h"
#include "core/graph/target.h"
#include "core/passes/dead_code.h"
#include "core/passes/f8_bounds.h"
#include "core/passes/rewrite.h"

namespace latentd::passes {
namespace {

// Multiple that a weight's numbers of channels have to be, in and out.
constexpr int64_t kSide = 16;

class F8Rewrite {
 public:
  F8Rewrite(const Graph& graph, const graph::Precision& precision)
      : graph_(graph), precision_(precision), rewrite_(graph), bounds_(rewrite_) {}

  absl::StatusOr<Graph> Run() && {
    for (ValueId id = 0; id < graph_.size(); ++id) {
      if (IsNamed(graph_.node(id))) readers_[graph_.node(id).operands[0]].push_back(id);
    }
    for (ValueId id = 0; id < graph_.size(); ++id) {
      if (rewrite_[id].id >= 0) continue;
      if (!IsNamed(graph_.node(id)) || !Emit(id)) rewrite_.Copy(id);
    }
    return std::move(rewrite_).Finish();
  }

 private:
  // Values that products of one operand read of it.
  struct Operand {
    Value x, weight_scale, scale;
  };

  bool IsNamed(const Node& node) const {
    const bool is_linear = node.op == Op::kLinear;
    if (!is_linear && node.op != Op::kConv2d) return false;
    if (node.dtype == graph::DType::kF32 || node.rate == Rate::kCheckpoint) return false;
    const Node* weight = &graph_.node(node.operands[1]);
    const bool fits = weight->shape[0] % kSide == 0 && weight->shape[1] % kSide == 0;
    while (IsOfOneWeight(*weight)) weight = &graph_.node(weight->operands[0]);
    return fits && weight->op == Op::kWeight &&
           MatchesAny(is_linear ? precision_.f8_weights : precision_.f8_convolutions,
                      weight->name) &&
           !MatchesAny(precision_.f8_exceptions, weight->name);
  }

  // Casts and multiples of a weight are recipes of it alone: the last linears of layers over frames
  // are multiplied with the share that these have of a blend.
  bool IsOfOneWeight(const Node& recipe) const {
    if (recipe.rate != Rate::kCheckpoint) return false;
    const bool is_multiple = recipe.op == Op::kMul && recipe.operands.size() == 2 &&
                             graph_.node(recipe.operands[1]).shape.elements() == 1;
    return recipe.op == Op::kCast || is_multiple;
  }

  static bool MatchesAny(const std::vector<std::string>& patterns, const std::string& name) {
    return std::any_of(patterns.begin(), patterns.end(),
                       [&](const std::string& pattern) { return Matches(pattern, name); });
  }

  // False where the operand has no bound.
  bool Emit(ValueId id) {
    const Node& node = graph_.node(id);
    const Operand* const read = Quantized(node.operands[0]);
    if (read == nullptr) return false;
    GraphBuilder& b = rewrite_.builder();
    const Value weight = b.Quantize(bounds_.Exact(node.operands[1]), read->weight_scale);
    const Value bias = node.operands.size() > 2 ? rewrite_[node.operands[2]] : graph::kNone;
    if (node.op == Op::kLinear) {
      rewrite_.Set(id, b.F8Linear(read->x, weight, read->scale, bias, node.dtype));
    } else {
      const auto& conv = std::get<graph::Conv2dAttributes>(node.attributes);
      rewrite_.Set(id, b.F8Conv2d(read->x, weight, read->scale, bias,
                                  {conv.stride, conv.padding, conv.layout, node.dtype}));
    }
    return true;
  }

  const Operand* Quantized(ValueId x) {
    const auto [entry, is_new] = quantized_.try_emplace(x);
    if (is_new) entry->second = Quantize(x);
    return entry->second.x.id < 0 ? nullptr : &entry->second;
  }

  Operand Quantize(ValueId x) {
    const Value bound = bounds_.Of(x);
    if (bound.id < 0) return {};
    GraphBuilder& b = rewrite_.builder();
    const Value scale = b.F8Scale(bound), weight_scale = b.F8Scale(LargestWeight(readers_.at(x)));
    return {b.Quantize(rewrite_[x], scale), weight_scale, b.Mul(scale, weight_scale)};
  }

  Value LargestWeight(const std::vector<ValueId>& products) {
    GraphBuilder& b = rewrite_.builder();
    std::vector<Value> largest;
    for (const ValueId id : products) {
      const Value weight = bounds_.Exact(graph_.node(id).operands[1]);
      largest.push_back(b.Reshape(bounds_.Largest(weight), {1}));
    }
    return bounds_.Largest(largest.size() == 1 ? largest[0] : b.Concat(largest, 0));
  }

  const Graph& graph_;
  const graph::Precision& precision_;
  Rewrite rewrite_;
  F8Bounds bounds_;
  std::map<ValueId, std::vector<ValueId>> readers_;  // products that are named, by what they read
  std::map<ValueId, Operand> quantized_;
};

}  // namespace

bool Matches(absl::string_view pattern, absl::string_view name) {
  const std::vector<absl::string_view> parts = absl::StrSplit(pattern, '*');
  if (parts.size() == 1) return name == pattern;
  if (!absl::ConsumePrefix(&name, parts.front())) return false;
  if (!absl::ConsumeSuffix(&name, parts.back())) return false;
  for (size_t i = 1; i + 1 < parts.size(); ++i) {
    const size_t at = name.find(parts[i]);
    if (at == absl::string_view::npos) return false;
    name.remove_prefix(at + parts[i].size());
  }
  return true;
}

absl::StatusOr<Graph> QuantizeProducts(const Graph& graph, const graph::Precision& precision) {
  if (precision.f8_weights.empty() && precision.f8_convolutions.empty()) return graph;
  ASSIGN_OR_RETURN(const Graph quantized, F8Rewrite(graph, precision).Run());
  return RemoveDeadCode(quantized, {});
}

}  // namespace latentd::passes
