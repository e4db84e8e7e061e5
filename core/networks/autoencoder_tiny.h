// AutoencoderTiny (TAESD): a small autoencoder of plain convolutions, whose latents are not a
// distribution.
#pragma once

#include <cstdint>
#include <string>
#include <vector>

#include "absl/status/statusor.h"
#include "absl/strings/string_view.h"
#include "core/networks/layers/layers.h"

namespace latentd::networks {

// The fields that diffusers' AutoencoderTiny reads from its config.json.
struct AutoencoderTinyConfig {
  int64_t in_channels = 3;
  int64_t out_channels = 3;
  int64_t latent_channels = 4;
  int64_t encoder_channels = 64;  // all of encoder_block_out_channels
  int64_t decoder_channels = 64;
  std::vector<int64_t> num_encoder_blocks = {1, 3, 3, 3};  // for each resolution, the largest first
  std::vector<int64_t> num_decoder_blocks = {3, 3, 3, 1};  // the smallest first
  Activation activation = Activation::kRelu;
  int64_t upsampling_scaling_factor = 2;

  // How a pipeline scales latents: (latents - shift_factor) * scaling_factor.
  double scaling_factor = 1;
  double shift_factor = 0;

  std::vector<std::string> unknown_fields;  // ConfigReader's
};

// `source` names the file or component in errors.
absl::StatusOr<AutoencoderTinyConfig> ParseAutoencoderTinyConfig(absl::string_view json,
                                                                 absl::string_view source);

// image [n, in_channels, H, W] in [-1, 1] -> latents [n, latent_channels, h, w], halved (rounding
// up) at every resolution but the first.
Value EncodeAutoencoderTiny(GraphBuilder& builder, const AutoencoderTinyConfig& config,
                            absl::string_view component, Value image);

// latents [n, latent_channels, h, w] -> image [n, out_channels, H, W] in [-1, 1], larger by
// upsampling_scaling_factor at every resolution but the last.
Value DecodeAutoencoderTiny(GraphBuilder& builder, const AutoencoderTinyConfig& config,
                            absl::string_view component, Value latents);

}  // namespace latentd::networks
