// AutoencoderKL: pictures in [-1, 1] to the distribution of their latents, and latents to pictures.
// Encoder and decoder are separate functions, so that their graphs share nothing but weights.
// Neither scales latents: see AutoencoderKlConfig.
#pragma once

#include "core/networks/config/autoencoder_kl_config.h"

namespace latentd::networks {

// image [n, in_channels, H, W] -> moments [n, 2 * latent_channels, h, w]: the means, then the
// logarithms of the variances (which diffusers clamps to [-30, 20] before it draws a sample). H and
// W are halved, rounding down, at every block but the last.
Value EncodeAutoencoderKl(GraphBuilder& builder, const AutoencoderKlConfig& config,
                          absl::string_view component, Value image);

// latents [n, latent_channels, h, w] -> image [n, out_channels, h * downscale(), w * downscale()].
Value DecodeAutoencoderKl(GraphBuilder& builder, const AutoencoderKlConfig& config,
                          absl::string_view component, Value latents);

}  // namespace latentd::networks
