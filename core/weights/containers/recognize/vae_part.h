// The VAE of a file: an AutoencoderKL by diffusers' names, by those of before diffusers 0.17, or by
// those of latent diffusion's own code (LDM, sgm). Its architecture comes from names and shapes.
//
// Thread-safe: free functions without state.
#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <vector>

#include "absl/status/statusor.h"
#include "core/weights/containers/recognize/part_reader.h"
#include "core/weights/source.h"

namespace latentd::weights {

struct VaeArchitecture {
  int64_t image_channels = 3;
  int64_t latent_channels = 0;
  std::vector<int64_t> channels;  // from the largest image to the smallest
  int64_t layers = 0;             // in a block of the encoder; the decoder has one more
  bool has_quant_conv = false;
  bool has_post_quant_conv = false;
  bool has_attention = false;  // in the middle
};

struct VaePart {
  VaeArchitecture architecture;
  SourceMap sources;
};

// The tensors of a file that are its VAE's, under whichever prefix it has; empty: there is none.
std::optional<PartTensors> FindVae(const TensorMap& tensors);

// True if a half of it is there alone.
bool IsHalfVae(const PartTensors& tensors);

// INVALID_ARGUMENT, beginning with `path`, names the tensors that are missing, misshapen or left
// over.
absl::StatusOr<VaePart> ReadVae(const std::string& path, PartTensors tensors);

// The encoder and what quantises its result, of a VAE whose decoder is another's. Errors as above.
absl::StatusOr<VaePart> ReadVaeEncoder(const std::string& path, PartTensors tensors);

// Settings that no tensor tells: all VAEs of Stable Diffusion 1, 2 and XL have one architecture.
// They are the UNet's family's.
struct VaeDefaults {
  double scaling_factor = 0.18215;
  int64_t sample_size = 512;
  std::vector<double> latents_mean, latents_std;  // empty: none
};

// The fields of config.json that these are, as JSON.
std::string VaeSettings(const VaeDefaults& defaults);

// config.json of such a VAE. Without defaults it has none of their fields.
std::string VaeConfig(const VaeArchitecture& vae, const std::optional<VaeDefaults>& defaults);

}  // namespace latentd::weights
