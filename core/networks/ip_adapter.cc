#include "core/networks/ip_adapter.h"

#include "core/networks/cross_attentions.h"

namespace latentd::networks {
namespace {

constexpr double kTokenEpsilon = 1e-5;

// IPAdapterPlusImageProjectionBlock: learned queries attend to the image and to themselves.
Value ResamplerLayer(const Scope& layer, const IpAdapterConfig& config, Value image,
                     Value queries) {
  GraphBuilder& b = layer.builder();
  const Scope attention = layer.Child("0");
  const Value normed = LayerNorm(attention.Child("norm2"), queries, kTokenEpsilon);
  const Value all =
      b.Concat({LayerNorm(attention.Child("norm1"), image, kTokenEpsilon), normed}, 1);
  const int64_t inner = config.heads * kResamplerHead;
  const Value query = Linear(attention.Child("to_q"), normed, inner, Bias::kNone);
  const Value both = Linear(attention.Child("to_kv"), all, 2 * inner, Bias::kNone);
  const Value mixed =
      b.Attention(query, b.Slice(both, 2, 0, inner), b.Slice(both, 2, inner, 2 * inner),
                  {.heads = config.heads, .scale = AttentionScale(inner, config.heads)});
  queries = b.Add(Linear(attention.Child("to_out"), mixed, config.width, Bias::kNone), queries);
  const Scope forward = layer.Child("1");
  const Value hidden =
      Linear(forward.Child("1"), LayerNorm(forward.Child("0"), queries, kTokenEpsilon),
             config.hidden, Bias::kNone);
  const Value made =
      Linear(forward.Child("3"), Activate(b, hidden, Activation::kGelu), config.width, Bias::kNone);
  return b.Add(made, queries);
}

Value Resample(const Scope& projection, const IpAdapterConfig& config, Value image) {
  GraphBuilder& b = projection.builder();
  const Value learned = projection.Weight("latents", {1, config.tokens, config.width});
  const std::vector<Value> rows(static_cast<size_t>(Dimension(b, image, 0)), learned);
  Value queries = b.Concat(rows, 0);
  const Value states = Linear(projection.Child("proj_in"), image, config.width);
  for (int64_t i = 0; i < config.layers; ++i) {
    queries = ResamplerLayer(projection.Child("layers", i), config, states, queries);
  }
  const Value out = Linear(projection.Child("proj_out"), queries, config.text_features);
  return LayerNorm(projection.Child("norm_out"), out, kTokenEpsilon);
}

}  // namespace

Value ImageTokens(GraphBuilder& builder, const IpAdapterConfig& config, absl::string_view component,
                  Value image) {
  const Scope projection = Scope(builder, component).Child("image_proj");
  if (config.projection == IpAdapterConfig::Projection::kResampler) {
    return Resample(projection, config, image);
  }
  const Value flat = Linear(projection.Child("proj"), image, config.tokens * config.text_features);
  const Value tokens =
      builder.Reshape(flat, {Dimension(builder, image, 0), config.tokens, config.text_features});
  return LayerNorm(projection.Child("norm"), tokens, kTokenEpsilon);
}

std::vector<KeysAndValues> ReadTokens(GraphBuilder& builder, const Unet2dConditionConfig& unet,
                                      absl::string_view component, Value tokens) {
  const Scope root(builder, component);
  std::vector<KeysAndValues> all;
  for (const CrossAttention& attention : CrossAttentionsOf(unet)) {
    const Scope scope = root.Child(attention.path);
    all.push_back({Linear(scope.Child("to_k_ip"), tokens, attention.features, Bias::kNone),
                   Linear(scope.Child("to_v_ip"), tokens, attention.features, Bias::kNone)});
  }
  return all;
}

}  // namespace latentd::networks
