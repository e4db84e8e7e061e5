// The fields that diffusers' AutoencoderKL reads from its config.json. A value beyond that is an
// error that names it.
#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <vector>

#include "absl/status/statusor.h"
#include "absl/strings/string_view.h"
#include "core/networks/config/config_reader.h"
#include "core/networks/layers/layers.h"

namespace latentd::networks {

struct AutoencoderKlConfig {
  int64_t in_channels = 3;
  int64_t out_channels = 3;
  int64_t latent_channels = 4;
  std::vector<int64_t> block_out_channels = {64};  // from the largest image to the smallest
  int64_t layers_per_block = 1;                    // one more in the decoder
  int64_t norm_num_groups = 32;
  Activation activation = Activation::kSilu;  // used in the residual blocks
  bool use_quant_conv = true;
  bool use_post_quant_conv = true;
  bool mid_block_add_attention = true;

  // How a pipeline scales latents between the autoencoder and the UNet: with a mean and a deviation
  // for each channel where the file has them, otherwise (latents - shift_factor) * scaling_factor.
  double scaling_factor = 0.18215;
  std::optional<double> shift_factor;
  std::optional<std::vector<double>> latents_mean;  // latent_channels values
  std::optional<std::vector<double>> latents_std;

  int64_t sample_size = 32;  // pixels of a side of the images that it was trained on

  bool force_upcast = true;  // float32 whatever the rest of the pipeline runs in

  std::vector<std::string> unknown_fields;  // ConfigReader's

  // How many pixels one latent pixel stands for in each direction.
  int64_t downscale() const { return int64_t{1} << (block_out_channels.size() - 1); }
};

// `source` names the file or component in errors.
absl::StatusOr<AutoencoderKlConfig> ParseAutoencoderKlConfig(absl::string_view json,
                                                             absl::string_view source);

}  // namespace latentd::networks
