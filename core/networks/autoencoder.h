// Facts about an autoencoder of either class.
//
// Pure functions.
#pragma once

#include <cstdint>
#include <variant>

#include "core/networks/autoencoder_kl.h"
#include "core/networks/autoencoder_tiny.h"

namespace latentd::networks {

using VaeConfig = std::variant<AutoencoderKlConfig, AutoencoderTinyConfig>;

// Pixels that one latent pixel stands for in each direction.
int DownscaleOf(const VaeConfig& config);
int64_t LatentChannelsOf(const VaeConfig& config);

// Factor of decoding in each dimension; encoding need not have the same.
int64_t UpscaleOf(const AutoencoderTinyConfig& config);

// True if encoding gives a distribution to draw latents from, and not the latents.
bool IsDistribution(const VaeConfig& config);

}  // namespace latentd::networks
