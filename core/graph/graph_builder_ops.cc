// One line per op: what GraphBuilder's operand order and attributes are in the op table.
#include "core/graph/graph_builder.h"

namespace latentd::graph {

Value GraphBuilder::Conv2d(Value x, Value weight, Value bias, Conv2dAttributes attributes) {
  return Emit(Op::kConv2d, {x, weight, bias}, attributes);
}
Value GraphBuilder::Linear(Value x, Value weight, Value bias) {
  return Emit(Op::kLinear, {x, weight, bias});
}
Value GraphBuilder::Matmul(Value a, Value b) { return Emit(Op::kMatmul, {a, b}); }
Value GraphBuilder::Attention(Value query, Value key, Value value, AttentionAttributes attributes) {
  return Emit(Op::kAttention, {query, key, value}, attributes);
}
Value GraphBuilder::LowRank(Value base, Value x, const LowRankOperands& path) {
  return Emit(Op::kLowRank, {base, x, path.down, path.up, path.slot, path.scale});
}
Value GraphBuilder::GroupNorm(Value x, Value gamma, Value beta, GroupNormAttributes attributes) {
  return Emit(Op::kGroupNorm, {x, gamma, beta}, attributes);
}
Value GraphBuilder::LayerNorm(Value x, Value gamma, Value beta, float epsilon) {
  return Emit(Op::kLayerNorm, {x, gamma, beta}, LayerNormAttributes{epsilon});
}
Value GraphBuilder::Softmax(Value x) { return Emit(Op::kSoftmax, {x}); }
Value GraphBuilder::RowStd(Value x) { return Emit(Op::kRowStd, {x}); }
Value GraphBuilder::IsFinite(Value x) { return Emit(Op::kIsFinite, {x}); }
Value GraphBuilder::RowNorm(Value x, RowNormAttributes attributes) {
  return Emit(Op::kRowNorm, {x}, attributes);
}
Value GraphBuilder::Silu(Value x) { return Emit(Op::kSilu, {x}); }
Value GraphBuilder::Gelu(Value x) { return Emit(Op::kGelu, {x}); }
Value GraphBuilder::QuickGelu(Value x) { return Emit(Op::kQuickGelu, {x}); }
Value GraphBuilder::Relu(Value x) { return Emit(Op::kRelu, {x}); }
Value GraphBuilder::Tanh(Value x) { return Emit(Op::kTanh, {x}); }
Value GraphBuilder::Exp(Value x) { return Emit(Op::kExp, {x}); }
Value GraphBuilder::Clamp(Value x, float min, float max) {
  return Emit(Op::kClamp, {x}, ClampAttributes{min, max});
}
Value GraphBuilder::Geglu(Value x) { return Emit(Op::kGeglu, {x}); }
Value GraphBuilder::Cast(Value x, DType to) { return Emit(Op::kCast, {x}, CastAttributes{to}); }
Value GraphBuilder::ToPixels(Value x) { return Emit(Op::kToPixels, {x}); }
Value GraphBuilder::Increment(Value x) { return Emit(Op::kIncrement, {x}); }
Value GraphBuilder::Add(Value a, Value b) { return Emit(Op::kAdd, {a, b}); }
Value GraphBuilder::Sub(Value a, Value b) { return Emit(Op::kSub, {a, b}); }
Value GraphBuilder::Mul(Value a, Value b) { return Emit(Op::kMul, {a, b}); }
Value GraphBuilder::Div(Value a, Value b) { return Emit(Op::kDiv, {a, b}); }

Value GraphBuilder::F8Scale(Value x) { return Emit(Op::kF8Scale, {x}); }
Value GraphBuilder::Quantize(Value x, Value scale) { return Emit(Op::kQuantize, {x, scale}); }
Value GraphBuilder::F8Linear(Value x, Value weight, Value scale, Value bias, DType to) {
  return Emit(Op::kF8Linear, {x, weight, scale, bias}, F8LinearAttributes{to});
}

Value GraphBuilder::F8Conv2d(Value x, Value weight, Value scale, Value bias,
                             F8Conv2dAttributes attributes) {
  return Emit(Op::kF8Conv2d, {x, weight, scale, bias}, attributes);
}

Value GraphBuilder::Concat(const std::vector<Value>& parts, int64_t axis) {
  if (!parts.empty()) axis = FromFront(axis, parts[0]);
  return Emit(Op::kConcat, parts, ConcatAttributes{axis});
}
Value GraphBuilder::Slice(Value x, int64_t axis, int64_t begin, int64_t end) {
  return Emit(Op::kSlice, {x}, SliceAttributes{FromFront(axis, x), begin, end});
}
Value GraphBuilder::Reshape(Value x, Shape shape) {
  return Emit(Op::kReshape, {x}, ReshapeAttributes{std::move(shape)});
}
Value GraphBuilder::Permute(Value x, std::vector<int64_t> order) {
  return Emit(Op::kPermute, {x}, PermuteAttributes{std::move(order)});
}
Value GraphBuilder::UpsampleNearest(Value x, int64_t height, int64_t width, Layout layout) {
  return Emit(Op::kUpsampleNearest, {x}, UpsampleAttributes{height, width, layout});
}
Value GraphBuilder::Embedding(Value table, Value ids) { return Emit(Op::kEmbedding, {table, ids}); }
Value GraphBuilder::Select(Value table, Value index) { return Emit(Op::kSelect, {table, index}); }
Value GraphBuilder::TimestepEmbedding(Value timesteps, TimestepEmbeddingAttributes attributes) {
  return Emit(Op::kTimestepEmbedding, {timesteps}, attributes);
}
Value GraphBuilder::SchedulerStep(Value state, Value output, Value noise, Value line) {
  return Emit(Op::kSchedulerStep, {state, output, noise, line});
}

int64_t GraphBuilder::FromFront(int64_t axis, Value x) const {
  const bool known = x.id >= 0 && x.id < static_cast<ValueId>(nodes_.size());
  return known && axis < 0 ? axis + nodes_[x.id].shape.rank() : axis;
}

}  // namespace latentd::graph
