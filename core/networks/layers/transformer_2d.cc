#include "core/networks/layers/transformer_2d.h"

namespace latentd::networks {
namespace {

// Fixed in diffusers, whatever the config's norm_eps.
constexpr double kImageNormEpsilon = 1e-6;
constexpr double kTokenNormEpsilon = 1e-5;

// BasicTransformerBlock: attention, attention to the text and feed-forward, each normed and added
// to its input.
Value TransformerBlock(const Scope& scope, Value x, Value text,
                       absl::Span<const KeysAndValues> images,
                       const Transformer2dOptions& options) {
  GraphBuilder& b = scope.builder();
  const AttentionOptions attention = {
      .heads = options.heads, .features = Dimension(b, x, -1), .upcast = options.upcast_attention};
  Value normed = LayerNorm(scope.Child("norm1"), x, kTokenNormEpsilon);
  const Value first = options.first_attention == FirstAttention::kToText ? text : normed;
  x = b.Add(x, AttentionLayer(scope.Child("attn1"), normed, first, attention));
  normed = LayerNorm(scope.Child("norm2"), x, kTokenNormEpsilon);
  x = b.Add(x, AttentionLayer(scope.Child("attn2"), normed, text, attention, images));
  normed = LayerNorm(scope.Child("norm3"), x, kTokenNormEpsilon);
  return b.Add(x, FeedForward(scope.Child("ff"), normed));
}

}  // namespace

Value Transformer2d(const Scope& scope, Value x, Value text, const Transformer2dOptions& options,
                    absl::Span<const std::vector<KeysAndValues>> images) {
  GraphBuilder& b = scope.builder();
  const int64_t channels = Dimension(b, x, 1);
  const int64_t height = Dimension(b, x, 2), width = Dimension(b, x, 3);
  // Diffusers rounds the size of a head down if the heads do not divide the channels.
  const int64_t features = channels / options.heads * options.heads;
  const bool linear = options.projection == Projection::kLinear;
  const Scope in = scope.Child("proj_in"), out = scope.Child("proj_out");

  Value hidden = GroupNorm(scope.Child("norm"), x, options.groups, kImageNormEpsilon);
  if (linear) {
    hidden = Linear(in, ImageToTokens(b, hidden), features);
  } else {
    hidden = ImageToTokens(b, Convolution(in, hidden, {.out_channels = features, .kernel = 1}));
  }
  for (int64_t i = 0; i < options.layers; ++i) {
    absl::Span<const KeysAndValues> own;
    if (!images.empty()) own = images[static_cast<size_t>(i)];
    hidden = TransformerBlock(scope.Child("transformer_blocks", i), hidden, text, own, options);
  }
  if (linear) {
    hidden = TokensToImage(b, Linear(out, hidden, channels), height, width);
  } else {
    hidden = Convolution(out, TokensToImage(b, hidden, height, width),
                         {.out_channels = channels, .kernel = 1});
  }
  return b.Add(x, hidden);
}

}  // namespace latentd::networks
