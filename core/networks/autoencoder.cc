#include "core/networks/autoencoder.h"

namespace latentd::networks {

int DownscaleOf(const VaeConfig& config) {
  if (const auto* kl = std::get_if<AutoencoderKlConfig>(&config)) {
    return static_cast<int>(kl->downscale());
  }
  // TAESD halves at every resolution but the first.
  return 1 << (std::get<AutoencoderTinyConfig>(config).num_encoder_blocks.size() - 1);
}

int64_t LatentChannelsOf(const VaeConfig& config) {
  return std::visit([](const auto& vae) { return vae.latent_channels; }, config);
}

int64_t UpscaleOf(const AutoencoderTinyConfig& config) {
  int64_t scale = 1;
  for (size_t i = 1; i < config.num_decoder_blocks.size(); ++i) {
    scale *= config.upsampling_scaling_factor;
  }
  return scale;
}

bool IsDistribution(const VaeConfig& config) {
  return std::holds_alternative<AutoencoderKlConfig>(config);
}

}  // namespace latentd::networks
