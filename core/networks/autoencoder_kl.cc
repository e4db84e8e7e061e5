#include "core/networks/autoencoder_kl.h"

#include "core/networks/layers/resnet_block.h"

namespace latentd::networks {
namespace {

// Fixed in diffusers for all norms of the autoencoder.
constexpr double kEpsilon = 1e-6;

ResnetOptions ResnetOf(const AutoencoderKlConfig& config, int64_t channels) {
  return {.out_channels = channels,
          .groups = config.norm_num_groups,
          .epsilon = kEpsilon,
          .activation = config.activation};
}

Value MiddleBlock(const Scope& scope, const AutoencoderKlConfig& config, Value x) {
  const ResnetOptions resnet = ResnetOf(config, config.block_out_channels.back());
  x = ResnetBlock(scope.Child("resnets.0"), x, kNone, resnet);
  if (config.mid_block_add_attention) {
    x = PixelAttention(scope.Child("attentions.0"), x, config.norm_num_groups, kEpsilon);
  }
  return ResnetBlock(scope.Child("resnets.1"), x, kNone, resnet);
}

Value Resnets(const Scope& block, const AutoencoderKlConfig& config, int64_t layers,
              int64_t channels, Value x) {
  for (int64_t i = 0; i < layers; ++i) {
    x = ResnetBlock(block.Child("resnets", i), x, kNone, ResnetOf(config, channels));
  }
  return x;
}

// The last norm is followed by silu whatever act_fn is.
Value Finish(const Scope& scope, const AutoencoderKlConfig& config, Value x, int64_t channels) {
  x = GroupNorm(scope.Child("conv_norm_out"), x, config.norm_num_groups, kEpsilon);
  return Convolution(scope.Child("conv_out"), scope.builder().Silu(x), {.out_channels = channels});
}

}  // namespace

Value EncodeAutoencoderKl(GraphBuilder& builder, const AutoencoderKlConfig& config,
                          absl::string_view component, Value image) {
  if (!RequireImage(builder, "image", image, config.in_channels)) return image;
  const Scope root(builder, component);
  const Scope encoder = root.Child("encoder");
  const std::vector<int64_t>& channels = config.block_out_channels;
  Value x = Convolution(encoder.Child("conv_in"), image, {.out_channels = channels.front()});
  for (size_t i = 0; i < channels.size(); ++i) {
    const Scope block = encoder.Child("down_blocks", i);
    x = Resnets(block, config, config.layers_per_block, channels[i], x);
    if (i + 1 < channels.size()) x = Downsample(block.Child("downsamplers.0"), x, /*padding=*/0);
  }
  x = MiddleBlock(encoder.Child("mid_block"), config, x);
  const int64_t moments = 2 * config.latent_channels;
  x = Finish(encoder, config, x, moments);
  if (!config.use_quant_conv) return x;
  return Convolution(root.Child("quant_conv"), x, {.out_channels = moments, .kernel = 1});
}

Value DecodeAutoencoderKl(GraphBuilder& builder, const AutoencoderKlConfig& config,
                          absl::string_view component, Value latents) {
  if (!RequireImage(builder, "latents", latents, config.latent_channels)) return latents;
  const Scope root(builder, component);
  const Scope decoder = root.Child("decoder");
  const std::vector<int64_t>& channels = config.block_out_channels;
  Value x = latents;
  if (config.use_post_quant_conv) {
    x = Convolution(root.Child("post_quant_conv"), x,
                    {.out_channels = config.latent_channels, .kernel = 1});
  }
  x = Convolution(decoder.Child("conv_in"), x, {.out_channels = channels.back()});
  x = MiddleBlock(decoder.Child("mid_block"), config, x);
  for (size_t i = 0; i < channels.size(); ++i) {
    const Scope block = decoder.Child("up_blocks", i);
    x = Resnets(block, config, config.layers_per_block + 1, channels[channels.size() - 1 - i], x);
    if (i + 1 < channels.size()) {
      x = Upsample(block.Child("upsamplers.0"), x, 2 * Dimension(builder, x, 2),
                   2 * Dimension(builder, x, 3));
    }
  }
  return Finish(decoder, config, x, config.out_channels);
}

}  // namespace latentd::networks
