#include "core/backends/lowering/fused_patterns.h"

#include <algorithm>

#include "core/graph/op_table.h"
#include "core/graph/target.h"

namespace latentd::backends::lowering {
namespace {

using graph::Graph;
using graph::Node;
using graph::Op;
using graph::ValueId;

// Walks a body from its one output towards its inputs.
class Matcher {
 public:
  explicit Matcher(const Graph& body) : body_(body), uses_(body.UseCounts()) {
    int input = 0;
    inputs_.assign(body.size(), -1);
    for (ValueId id : body.Select(Op::kInput)) inputs_[id] = input++;
  }

  // product [+ residual] [activation]
  std::optional<FusedMatch> Epilogue(Op product) {
    ValueId at = body_.outputs()[0].value;
    FusedMatch match;
    if (graph::IsActivation(body_.node(at).op)) {
      match.activation = body_.node(at).op;
      at = body_.node(at).operands[0];
      if (uses_[at] != 1) return std::nullopt;
    }
    int residual = -1;
    if (body_.node(at).op == Op::kAdd) {
      const Node& sum = body_.node(at);
      const int side = body_.node(sum.operands[0]).op == product ? 0 : 1;
      at = sum.operands[side];
      const ValueId other = sum.operands[1 - side];
      residual = inputs_[other];
      if (residual < 0 || body_.node(other).shape != sum.shape || uses_[at] != 1) {
        return std::nullopt;
      }
    }
    if (!Take(product, at, match)) return std::nullopt;
    match.kernel = *KernelOf(product);
    const bool is_f8 = product == Op::kF8Linear || product == Op::kF8Conv2d;
    match.operands.resize(is_f8 ? 4 : 3, -1);
    match.operands.push_back(residual);
    return match;
  }

  // geglu(linear), or geglu(low_rank(linear, x)) where x is what the linear reads
  std::optional<FusedMatch> Geglu() {
    const Node& geglu = body_.node(body_.outputs()[0].value);
    if (geglu.op != Op::kGeglu || uses_[geglu.operands[0]] != 1) return std::nullopt;
    ValueId at = geglu.operands[0];
    const Node* const path = body_.node(at).op == Op::kLowRank ? &body_.node(at) : nullptr;
    if (path != nullptr) at = path->operands[0];
    FusedMatch match{.kernel = Kernel::kLinearGeglu};
    if (uses_[at] != 1 || !Take(Op::kLinear, at, match)) return std::nullopt;
    match.operands.resize(3, -1);
    if (path != nullptr && !TakePath(*path, match)) return std::nullopt;
    return match;
  }

  // quantize(geglu(f8_linear))
  std::optional<FusedMatch> F8LinearGeglu() {
    const Node& quantize = body_.node(body_.outputs()[0].value);
    if (quantize.op != Op::kQuantize || uses_[quantize.operands[0]] != 1) return std::nullopt;
    const Node& geglu = body_.node(quantize.operands[0]);
    FusedMatch match{.kernel = Kernel::kF8LinearGeglu};
    const bool fits = geglu.op == Op::kGeglu && uses_[geglu.operands[0]] == 1;
    if (!fits || !Take(Op::kF8Linear, geglu.operands[0], match)) return std::nullopt;
    match.operands.resize(4, -1);
    match.operands.push_back(inputs_[quantize.operands[1]]);
    return match.operands.back() < 0 ? std::nullopt : std::optional<FusedMatch>(match);
  }

  // quantize(layer_norm), quantize(geglu) or quantize(attention)
  std::optional<FusedMatch> F8Result(Op op, Kernel kernel) {
    const Node& quantize = body_.node(body_.outputs()[0].value);
    if (quantize.op != Op::kQuantize || uses_[quantize.operands[0]] != 1) return std::nullopt;
    FusedMatch match{.kernel = kernel};
    if (!Take(op, quantize.operands[0], match)) return std::nullopt;
    match.operands.push_back(inputs_[quantize.operands[1]]);
    return match.operands.back() < 0 ? std::nullopt : std::optional<FusedMatch>(match);
  }

  // conv2d(upsample_nearest), in NHWC, as core/graph/target.h says
  std::optional<FusedMatch> UpsampleConvolution() {
    const ValueId at = body_.outputs()[0].value;
    const Node& conv = body_.node(at);
    if (conv.op != Op::kConv2d) return std::nullopt;
    const Node& large = body_.node(conv.operands[0]);
    const graph::Shape& weight = body_.node(conv.operands[1]).shape;
    const bool fits = large.op == Op::kUpsampleNearest && uses_[conv.operands[0]] == 1 &&
                      weight[2] == 3 && weight[3] == 3 &&
                      std::get<graph::Conv2dAttributes>(conv.attributes) == kSameSize &&
                      Doubles(large);
    if (!fits) return std::nullopt;
    FusedMatch match{.kernel = Kernel::kUpsampleConvolution, .product = at};
    std::vector<ValueId> operands = conv.operands;
    operands[0] = large.operands[0];
    for (ValueId operand : operands) match.operands.push_back(inputs_[operand]);
    if (std::count(match.operands.begin(), match.operands.end(), -1) != 0) return std::nullopt;
    match.operands.resize(3, -1);
    return match;
  }

  // group_norm(x [+ row]) [silu]
  std::optional<FusedMatch> Norm() {
    return NormAt(body_.outputs()[0].value, {.kernel = Kernel::kGroupNorm});
  }

  // quantize(silu(group_norm(x [+ row]))), in NHWC
  std::optional<FusedMatch> F8Norm() {
    const Node& quantize = body_.node(body_.outputs()[0].value);
    if (quantize.op != Op::kQuantize || uses_[quantize.operands[0]] != 1) return std::nullopt;
    if (body_.node(quantize.operands[0]).op != Op::kSilu) return std::nullopt;
    std::optional<FusedMatch> match =
        NormAt(quantize.operands[0], {.kernel = Kernel::kGroupNormF8});
    if (!match || inputs_[quantize.operands[1]] < 0) return std::nullopt;
    const auto& norm = std::get<graph::GroupNormAttributes>(body_.node(match->product).attributes);
    if (norm.layout != graph::Layout::kNhwc) return std::nullopt;
    match->operands.push_back(inputs_[quantize.operands[1]]);
    return match;
  }

 private:
  std::optional<FusedMatch> NormAt(ValueId at, FusedMatch match) {
    if (body_.node(at).op == Op::kSilu) {
      match.activation = Op::kSilu;
      at = body_.node(at).operands[0];
      if (uses_[at] != 1) return std::nullopt;
    }
    if (body_.node(at).op != Op::kGroupNorm) return std::nullopt;
    const Node& norm = body_.node(at);
    const Node& x = body_.node(norm.operands[0]);
    if (x.op == Op::kAdd && uses_[norm.operands[0]] == 1) return AddedNorm(at, x, match);
    if (!Take(Op::kGroupNorm, at, match)) return std::nullopt;
    match.operands.push_back(-1);
    return match;
  }

  // Takes from a path beside a linear what it reads but its base and the linear's x.
  bool TakePath(const Node& path, FusedMatch& match) {
    if (inputs_[path.operands[1]] != match.operands[0]) return false;
    for (auto operand = path.operands.begin() + 2; operand != path.operands.end(); ++operand) {
      if (inputs_[*operand] < 0) return false;
      match.operands.push_back(inputs_[*operand]);
    }
    return true;
  }

  static constexpr graph::Conv2dAttributes kSameSize = {
      .stride = 1, .padding = {1, 1, 1, 1}, .layout = graph::Layout::kNhwc};

  // True for an upsampling to twice the size, in NHWC.
  bool Doubles(const Node& upsample) const {
    const graph::Shape& from = body_.node(upsample.operands[0]).shape;
    return std::get<graph::UpsampleAttributes>(upsample.attributes) ==
           graph::UpsampleAttributes{2 * from[1], 2 * from[2], graph::Layout::kNhwc};
  }

  // The operands of a node that reads the body's inputs only.
  bool Take(Op op, ValueId at, FusedMatch& match) {
    if (body_.node(at).op != op) return false;
    match.product = at;
    for (ValueId operand : body_.node(at).operands) match.operands.push_back(inputs_[operand]);
    return std::count(match.operands.begin(), match.operands.end(), -1) == 0;
  }

  std::optional<FusedMatch> AddedNorm(ValueId at, const Node& sum, FusedMatch match) {
    const Node& norm = body_.node(at);
    const int side = body_.node(sum.operands[0]).shape == norm.shape ? 0 : 1;
    const Node& added = body_.node(sum.operands[1 - side]);
    const int64_t channels = body_.node(norm.operands[1]).shape[0];
    // One value for each row and channel, in either layout.
    const int axis =
        std::get<graph::GroupNormAttributes>(norm.attributes).layout == graph::Layout::kNchw ? 1
                                                                                             : 3;
    if (added.shape.rank() != 4 || added.shape[0] != norm.shape[0] ||
        added.shape[axis] != channels || added.shape.elements() != norm.shape[0] * channels) {
      return std::nullopt;
    }
    match.product = at;
    for (ValueId id :
         {sum.operands[side], norm.operands[1], norm.operands[2], sum.operands[1 - side]}) {
      if (inputs_[id] < 0) return std::nullopt;
      match.operands.push_back(inputs_[id]);
    }
    return match;
  }

  const Graph& body_;
  std::vector<int> uses_;
  std::vector<int> inputs_;  // number of the input that a value is, or -1
};

}  // namespace

const std::vector<std::string>& FusedKinds() {
  static const auto* kinds = new std::vector<std::string>{
      graph::kConv2dEpilogue,   graph::kLinearEpilogue,  graph::kF8LinearEpilogue,
      graph::kF8Conv2dEpilogue, graph::kLinearGeglu,     graph::kLayerNormF8,
      graph::kGegluF8,          graph::kAttentionF8,     graph::kF8LinearGeglu,
      graph::kGroupNormSilu,    graph::kGroupNormSiluF8, graph::kUpsampleConv2d};
  return *kinds;
}

std::optional<FusedMatch> Match(const graph::FusedAttributes& fused) {
  Matcher matcher(*fused.body);
  if (fused.kind == graph::kConv2dEpilogue) return matcher.Epilogue(Op::kConv2d);
  if (fused.kind == graph::kLinearEpilogue) return matcher.Epilogue(Op::kLinear);
  if (fused.kind == graph::kF8LinearEpilogue) return matcher.Epilogue(Op::kF8Linear);
  if (fused.kind == graph::kF8Conv2dEpilogue) return matcher.Epilogue(Op::kF8Conv2d);
  if (fused.kind == graph::kLinearGeglu) return matcher.Geglu();
  if (fused.kind == graph::kLayerNormF8) {
    return matcher.F8Result(Op::kLayerNorm, Kernel::kLayerNormF8);
  }
  if (fused.kind == graph::kGegluF8) return matcher.F8Result(Op::kGeglu, Kernel::kGegluF8);
  if (fused.kind == graph::kAttentionF8) {
    return matcher.F8Result(Op::kAttention, Kernel::kAttentionF8);
  }
  if (fused.kind == graph::kF8LinearGeglu) return matcher.F8LinearGeglu();
  if (fused.kind == graph::kGroupNormSilu) return matcher.Norm();
  if (fused.kind == graph::kGroupNormSiluF8) return matcher.F8Norm();
  if (fused.kind == graph::kUpsampleConv2d) return matcher.UpsampleConvolution();
  return std::nullopt;
}

}  // namespace latentd::backends::lowering
