#include "core/networks/layers/clip_layer.h"

namespace latentd::networks {
namespace {

Value SelfAttention(const Scope& scope, Value x, const ClipLayerOptions& options) {
  const int64_t features = Dimension(scope.builder(), x, -1);
  const Value query = Linear(scope.Child("q_proj"), x, features);
  const Value key = Linear(scope.Child("k_proj"), x, features);
  const Value value = Linear(scope.Child("v_proj"), x, features);
  const Value mixed = scope.builder().Attention(query, key, value,
                                                {.heads = options.heads,
                                                 .scale = AttentionScale(features, options.heads),
                                                 .causal = options.causal});
  return Linear(scope.Child("out_proj"), mixed, features);
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
