#include "core/networks/layers/clip_layer.h"

#include <utility>
#include <vector>

namespace latentd::networks {
namespace {

// The same as the operation does, with a mask.
Value MaskedAttention(GraphBuilder& b, Value query, Value key, Value value,
                      const ClipLayerOptions& options) {
  const int64_t rows = Dimension(b, query, 0), tokens = Dimension(b, query, 1);
  const int64_t features = Dimension(b, query, 2), heads = options.heads;
  const auto by_head = [&](Value x, std::vector<int64_t> order) {
    return b.Permute(b.Reshape(x, {rows, tokens, heads, features / heads}), std::move(order));
  };
  const Value products = b.Matmul(by_head(query, {0, 2, 1, 3}), by_head(key, {0, 2, 3, 1}));
  const Value scores = b.Mul(products, b.Scalar(AttentionScale(features, heads)));
  const Value mask = b.Reshape(options.mask, {rows, 1, tokens, tokens});
  const Value mixed = b.Matmul(b.Softmax(b.Add(scores, mask)), by_head(value, {0, 2, 1, 3}));
  return b.Reshape(b.Permute(mixed, {0, 2, 1, 3}), {rows, tokens, features});
}

Value MixedValues(GraphBuilder& b, Value query, Value key, Value value,
                  const ClipLayerOptions& options) {
  if (options.mask.id != graph::kNone.id) return MaskedAttention(b, query, key, value, options);
  return b.Attention(query, key, value,
                     {.heads = options.heads,
                      .scale = AttentionScale(Dimension(b, query, -1), options.heads),
                      .causal = options.causal});
}

Value SelfAttention(const Scope& scope, Value x, const ClipLayerOptions& options) {
  GraphBuilder& b = scope.builder();
  const int64_t features = Dimension(b, x, -1);
  const Value query = Linear(scope.Child("q_proj"), x, features);
  const Value key = Linear(scope.Child("k_proj"), x, features);
  const Value value = Linear(scope.Child("v_proj"), x, features);
  return Linear(scope.Child("out_proj"), MixedValues(b, query, key, value, options), features);
}

}  // namespace

Value ClipLayer(const Scope& scope, Value x, const ClipLayerOptions& options) {
  GraphBuilder& b = scope.builder();
  const Value first = LayerNorm(scope.Child("layer_norm1"), x, options.layer_norm_eps);
  x = b.Add(x, SelfAttention(scope.Child("self_attn"), first, options));
  const Value second = LayerNorm(scope.Child("layer_norm2"), x, options.layer_norm_eps);
  const Value hidden = Linear(scope.Child("mlp.fc1"), second, options.intermediate_size);
  const Value activated = Activate(b, hidden, options.activation);
  return b.Add(x, Linear(scope.Child("mlp.fc2"), activated, Dimension(b, x, -1)));
}

}  // namespace latentd::networks
