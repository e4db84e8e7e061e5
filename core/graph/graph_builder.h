// Builds a Graph node by node. Shapes, dtypes and rates follow from the op table, so a network is
// written as it reads:
//
//   GraphBuilder b;
//   Value x = b.Input("sample", DType::kF32, {2, 4, 32, 32}, Rate::kStep);
//   Value y = b.Conv2d(x, b.Weight("unet/conv_in.weight", {64, 4, 3, 3}),
//   b.Weight("unet/conv_in.bias", {64}), {.padding = {1, 1, 1, 1}}); b.Output("out", b.Silu(y));
//   ASSIGN_OR_RETURN(Graph graph, std::move(b).Build());
//
// A mistake (shapes that do not fit, a name used twice with another shape) does not stop the
// caller: the builder remembers the first one, with the op and its operand shapes, goes on with a
// placeholder, and Build() returns it. Not thread-safe.
#pragma once

#include <string>
#include <vector>

#include "absl/container/flat_hash_map.h"
#include "absl/status/statusor.h"
#include "core/graph/graph.h"

namespace latentd::graph {

// A handle to a value of the builder that made it.
struct Value {
  ValueId id = -1;
};

// An operand that may be absent (a bias).
inline constexpr Value kNone{};

// Operands of low_rank beside its base and x.
struct LowRankOperands {
  Value down, up;  // pools of the slots' matrices
  Value slot, scale;
};

class GraphBuilder {
 public:
  Value Input(const std::string& name, DType dtype, Shape shape, Rate rate);
  // A float32 leaf, whatever files have it in. The same name with the same shape gives the same
  // value again.
  Value Weight(const std::string& name, Shape shape);
  Value Constant(std::vector<float> values, Shape shape);
  Value Scalar(float value) { return Constant({value}, Shape{}); }

  Value Conv2d(Value x, Value weight, Value bias, Conv2dAttributes attributes);
  Value Linear(Value x, Value weight, Value bias = kNone);
  Value Matmul(Value a, Value b);
  Value Attention(Value query, Value key, Value value, AttentionAttributes attributes);
  Value LowRank(Value base, Value x, const LowRankOperands& path);
  Value GroupNorm(Value x, Value gamma, Value beta, GroupNormAttributes attributes);
  Value LayerNorm(Value x, Value gamma, Value beta, float epsilon);
  Value Softmax(Value x);
  Value RowStd(Value x);
  Value IsFinite(Value x);
  Value RowNorm(Value x, RowNormAttributes attributes);
  Value Silu(Value x);
  Value Gelu(Value x);
  Value QuickGelu(Value x);
  Value Relu(Value x);
  Value Tanh(Value x);
  Value Exp(Value x);
  Value Clamp(Value x, float min, float max);
  Value Geglu(Value x);
  Value Cast(Value x, DType to);
  Value ToPixels(Value x);
  Value Increment(Value x);
  Value Add(Value a, Value b);
  Value Sub(Value a, Value b);
  Value Mul(Value a, Value b);
  Value Div(Value a, Value b);
  Value F8Scale(Value x);
  Value Quantize(Value x, Value scale);
  Value F8Linear(Value x, Value weight, Value scale, Value bias, DType to);
  Value F8Conv2d(Value x, Value weight, Value scale, Value bias, F8Conv2dAttributes attributes);
  // A negative axis counts from the end.
  Value Concat(const std::vector<Value>& parts, int64_t axis);
  Value Slice(Value x, int64_t axis, int64_t begin, int64_t end);
  Value Reshape(Value x, Shape shape);
  Value Permute(Value x, std::vector<int64_t> order);
  Value UpsampleNearest(Value x, int64_t height, int64_t width, Layout layout = Layout::kNchw);
  Value Embedding(Value table, Value ids);
  Value Select(Value table, Value index);
  Value TimestepEmbedding(Value timesteps, TimestepEmbeddingAttributes attributes);
  Value SchedulerStep(Value state, Value output, Value noise, Value line);

  // Any op, for passes that rebuild graphs; a leaf keeps its name. `shape` and `dtype` are read for
  // leaves only.
  Value Append(Node node);

  void Output(const std::string& name, Value value);

  // Remembers a mistake that a network found itself (a config value it does not support), unless
  // one came before.
  void Fail(absl::Status status);

  // The first mistake so far; OK if there is none.
  const absl::Status& status() const { return status_; }

  const Node& node(Value value) const { return nodes_[value.id]; }
  const Shape& shape(Value value) const { return nodes_[value.id].shape; }

  absl::StatusOr<Graph> Build() &&;

 private:
  Value Emit(Op op, std::vector<Value> operands, Attributes attributes = {});
  Value Push(Node node);
  // Remembers the mistake and gives a placeholder.
  Value Fallback(absl::Status status);
  absl::Status ResolveLeaf(const Node& leaf);
  absl::Status ResolveInner(Node* node) const;
  int64_t FromFront(int64_t axis, Value x) const;

  std::vector<Node> nodes_;
  std::vector<graph::Output> outputs_;
  absl::flat_hash_map<std::string, ValueId> leaves_;  // by name
  absl::Status status_;
};

}  // namespace latentd::graph
