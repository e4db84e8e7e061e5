#include "tests/core/passes/networks.h"

#include "absl/strings/str_cat.h"

namespace latentd::passes {
namespace {

using graph::DType;
using graph::Graph;
using graph::GraphBuilder;
using graph::kNone;
using graph::Rate;
using graph::Shape;
using graph::Value;

// Layers that name their weights after themselves.
class Layers {
 public:
  explicit Layers(GraphBuilder& builder) : b(builder) {}

  Value Conv(Value x, int64_t channels, int64_t size = 3, int64_t stride = 1) {
    const std::string name = Next("conv");
    const Value weight = b.Weight(name + ".weight", {channels, b.shape(x)[1], size, size});
    const Value bias = b.Weight(name + ".bias", {channels});
    const int64_t pad = size / 2;
    return b.Conv2d(x, weight, bias, {.stride = stride, .padding = {pad, pad, pad, pad}});
  }

  Value Linear(Value x, int64_t features, bool with_bias = true) {
    const std::string name = Next("linear");
    const Value weight = b.Weight(name + ".weight", {features, b.shape(x)[-1]});
    return b.Linear(x, weight, with_bias ? b.Weight(name + ".bias", {features}) : kNone);
  }

  Value GroupNormSilu(Value x) {
    const std::string name = Next("norm");
    const Value gamma = b.Weight(name + ".weight", {b.shape(x)[1]});
    const Value beta = b.Weight(name + ".bias", {b.shape(x)[1]});
    return b.Silu(b.GroupNorm(x, gamma, beta, {.groups = 2}));
  }

  Value LayerNorm(Value x) {
    const std::string name = Next("norm");
    const Value gamma = b.Weight(name + ".weight", {b.shape(x)[-1]});
    const Value beta = b.Weight(name + ".bias", {b.shape(x)[-1]});
    return b.LayerNorm(x, gamma, beta, 1e-5f);
  }

  Value ResnetBlock(Value x, Value time, int64_t channels) {
    const int64_t rows = b.shape(x)[0];
    const Value shift = b.Reshape(Linear(b.Silu(time), channels), {rows, channels, 1, 1});
    const Value hidden = b.Add(Conv(GroupNormSilu(x), channels), shift);
    const Value result = Conv(GroupNormSilu(hidden), channels);
    const Value shortcut = b.shape(x)[1] == channels ? x : Conv(x, channels, 1);
    return b.Add(shortcut, result);
  }

  Value Transformer(Value image, Value text) {
    const Shape shape = b.shape(image);
    const Shape tokens_shape{shape[0], shape[2] * shape[3], shape[1]};
    Value x = b.Reshape(b.Permute(image, {0, 2, 3, 1}), tokens_shape);
    x = b.Add(Linear(Attention(LayerNorm(x), kNone), shape[1]), x);
    x = b.Add(Linear(Attention(LayerNorm(x), text), shape[1]), x);
    x = b.Add(Linear(b.Geglu(Linear(LayerNorm(x), 4 * shape[1])), shape[1]), x);
    x = Linear(x, shape[1]);
    const Value back =
        b.Permute(b.Reshape(x, {shape[0], shape[2], shape[3], shape[1]}), {0, 3, 1, 2});
    return b.Add(image, back);
  }

 private:
  Value Attention(Value x, Value text) {
    const Value source = text.id == kNone.id ? x : text;
    const int64_t channels = b.shape(x)[-1];
    const Value query = Linear(x, channels, /*with_bias=*/false);
    const Value key = Linear(source, channels, /*with_bias=*/false);
    const Value value = Linear(source, channels, /*with_bias=*/false);
    return b.Attention(query, key, value, {.heads = 2, .scale = 0.5f});
  }

  std::string Next(const std::string& kind) { return absl::StrCat("net/", kind, ++count_); }

  GraphBuilder& b;
  int count_ = 0;
};

}  // namespace

graph::Target EagerTarget(graph::Layout layout) {
  return {.name = "eager",
          .image_layout = layout,
          .fused = {graph::kConv2dEpilogue, graph::kLinearEpilogue, graph::kF8LinearEpilogue,
                    graph::kF8Conv2dEpilogue, graph::kLayerNormF8, graph::kGegluF8,
                    graph::kAttentionF8, graph::kF8LinearGeglu, graph::kLinearGeglu,
                    graph::kGroupNormSilu, graph::kGroupNormSiluF8, graph::kUpsampleConv2d},
          .merge_linears = true,
          .moves_upsample_bias = true};
}

Graph SmallUnet() {
  GraphBuilder b;
  Layers layers(b);
  const Value sample = b.Input("sample", DType::kF32, {2, 4, 8, 6}, Rate::kStep);
  const Value scale = b.Input("positive", DType::kF32, {2, 1, 1, 1}, Rate::kStep);
  const Value timesteps = b.Input("timesteps", DType::kF32, {2}, Rate::kStep);
  const Value text = b.Input("text", DType::kF32, {2, 5, 12}, Rate::kStep);
  const Value guidance = b.Input("guidance", DType::kF32, {2, 2}, Rate::kStep);

  Value time = layers.Linear(b.TimestepEmbedding(timesteps, {.dim = 8}), 16);
  time = layers.Linear(b.Silu(time), 16);
  const Value first = layers.Conv(b.Mul(sample, scale), 8);
  const Value skip = layers.ResnetBlock(first, time, 8);
  Value x = layers.ResnetBlock(layers.Conv(skip, 8, 3, /*stride=*/2), time, 8);
  x = layers.Transformer(x, text);
  x = layers.Conv(b.UpsampleNearest(x, 8, 6), 8);
  x = layers.ResnetBlock(b.Concat({x, skip}, 1), time, 8);
  x = layers.Conv(layers.GroupNormSilu(x), 4);
  const Value mixed = b.Matmul(guidance, b.Reshape(x, {2, int64_t{4} * 8 * 6}));
  b.Output("sample", b.Reshape(mixed, {2, 4, 8, 6}));
  b.Output("features", skip);
  return *std::move(b).Build();
}

int Count(const Graph& graph, graph::Op op) { return static_cast<int>(graph.Select(op).size()); }

std::vector<std::string> FusedKinds(const Graph& graph) {
  std::vector<std::string> kinds;
  for (graph::ValueId id : graph.Select(graph::Op::kFused)) {
    kinds.push_back(std::get<graph::FusedAttributes>(graph.node(id).attributes).kind);
  }
  return kinds;
}

}  // namespace latentd::passes
