#include "core/networks/clip_vision.h"

#include <vector>

#include "core/networks/layers/clip_layer.h"

namespace latentd::networks {
namespace {

// [n, tokens, features]: the token of the image as a whole, then its patches, row by row.
Value PatchEmbeddings(const Scope& scope, const ClipVisionConfig& config, Value pixels) {
  GraphBuilder& b = scope.builder();
  const int64_t features = config.hidden_size, patch = config.patch_size;
  const Value weight =
      scope.Weight("patch_embedding.weight", {features, config.num_channels, patch, patch});
  const Value patches = ImageToTokens(b, b.Conv2d(pixels, weight, kNone, {.stride = patch}));
  const Value whole = b.Reshape(scope.Weight("class_embedding", {features}), {1, 1, features});
  const std::vector<Value> wholes(static_cast<size_t>(Dimension(b, pixels, 0)), whole);
  const Value tokens = b.Concat({b.Concat(wholes, 0), patches}, 1);
  return b.Add(tokens, scope.Weight("position_embedding.weight", {config.tokens(), features}));
}

bool CheckPixels(GraphBuilder& builder, const ClipVisionConfig& config, Value pixels) {
  if (!RequireImage(builder, "pixels", pixels, config.num_channels)) return false;
  if (Dimension(builder, pixels, 2) != config.image_size ||
      Dimension(builder, pixels, 3) != config.image_size) {
    builder.Fail(absl::InvalidArgumentError(
        absl::StrCat("the image encoder's pixels must have ", config.image_size,
                     " of them a side, but are ", builder.shape(pixels).ToString())));
    return false;
  }
  return true;
}

// Behind the first `layers`.
Value EncodePatches(const Scope& vision, const ClipVisionConfig& config, Value pixels,
                    int64_t layers) {
  const ClipLayerOptions layer = {.heads = config.num_attention_heads,
                                  .intermediate_size = config.intermediate_size,
                                  .activation = config.activation,
                                  .layer_norm_eps = config.layer_norm_eps};
  Value x = PatchEmbeddings(vision.Child("embeddings"), config, pixels);
  x = LayerNorm(vision.Child("pre_layrnorm"), x, config.layer_norm_eps);  // spelled so on disk
  for (int64_t i = 0; i < layers; ++i) {
    x = ClipLayer(vision.Child("encoder.layers", i), x, layer);
  }
  return x;
}

}  // namespace

Value ClipVision(GraphBuilder& builder, const ClipVisionConfig& config, absl::string_view component,
                 Value pixels) {
  if (!CheckPixels(builder, config, pixels)) return pixels;
  const Scope root(builder, component);
  const Scope vision = root.Child("vision_model");
  const Value x = EncodePatches(vision, config, pixels, config.num_hidden_layers);
  const Value whole =
      builder.Reshape(builder.Slice(x, 1, 0, 1), {Dimension(builder, x, 0), config.hidden_size});
  const Value normed = LayerNorm(vision.Child("post_layernorm"), whole, config.layer_norm_eps);
  return Linear(root.Child("visual_projection"), normed, config.projection_dim, Bias::kNone);
}

Value ClipVisionStates(GraphBuilder& builder, const ClipVisionConfig& config,
                       absl::string_view component, Value pixels, int64_t left_out) {
  if (!CheckPixels(builder, config, pixels)) return pixels;
  const Scope vision = Scope(builder, component).Child("vision_model");
  return EncodePatches(vision, config, pixels, config.num_hidden_layers - left_out);
}

}  // namespace latentd::networks
