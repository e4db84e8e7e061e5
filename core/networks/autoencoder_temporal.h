// AutoencoderKLTemporalDecoder: pictures in [-1, 1] to the distribution of their latents, as
// AutoencoderKL does it, and the latents of frames that follow each other to the frames. Encoder
// and decoder are separate functions, so that their graphs share nothing but weights. Neither
// scales latents.
#pragma once

#include <cstdint>
#include <string>
#include <vector>

#include "absl/status/statusor.h"
#include "absl/strings/string_view.h"
#include "core/networks/layers/layers.h"

namespace latentd::networks {

// The fields that diffusers reads from its config.json. Groups of norms (32), silu and
// quant_conv are fixed.
struct AutoencoderTemporalConfig {
  int64_t in_channels = 3;
  int64_t out_channels = 3;
  int64_t latent_channels = 4;
  std::vector<int64_t> block_out_channels = {64};  // from the largest image to the smallest
  int64_t layers_per_block = 1;                    // one more in the decoder
  double scaling_factor = 0.18215;  // a pipeline multiplies latents by it for the UNet
  // The pipeline encodes in float32 where the rest is float16; it does not decode so.
  bool force_upcast = true;
  std::vector<std::string> unknown_fields;  // ConfigReader's

  // How many pixels one latent pixel stands for in each direction.
  int64_t downscale() const { return int64_t{1} << (block_out_channels.size() - 1); }
};

// `source` names the file or component in errors.
absl::StatusOr<AutoencoderTemporalConfig> ParseAutoencoderTemporalConfig(absl::string_view json,
                                                                         absl::string_view source);

// image [n, in_channels, H, W] -> moments [n, 2 * latent_channels, h, w], as EncodeAutoencoderKl.
Value EncodeAutoencoderTemporal(GraphBuilder& builder, const AutoencoderTemporalConfig& config,
                                absl::string_view component, Value image);

// latents [frames, latent_channels, h, w] of frames of one clip that follow each other ->
// [frames, out_channels, h * downscale(), w * downscale()]. Before the first and after the last
// there is nothing: a clip that is decoded in chunks is another one than that decoded whole.
Value DecodeAutoencoderTemporal(GraphBuilder& builder, const AutoencoderTemporalConfig& config,
                                absl::string_view component, Value latents);

// The decoder in parts, by their numbers from 1 on, which one after the other are its nodes in
// their order. Each but the first begins with one of the last two upsamplers, whose input is a
// quarter of what it gives: of four blocks, each part has a third of the arithmetic.
int64_t DecoderPartsOf(const AutoencoderTemporalConfig& config);
// Shape of what a part but the first reads, images as the decoder has them, where that decodes
// latents [frames, latent_channels, height, width].
Shape DecoderPartInput(const AutoencoderTemporalConfig& config, int64_t part, int64_t frames,
                       int64_t height, int64_t width);
// Appends a part. The first reads the latents, and the last one gives the frames.
Value DecodeAutoencoderTemporalPart(GraphBuilder& builder, const AutoencoderTemporalConfig& config,
                                    absl::string_view component, int64_t part, Value input);

}  // namespace latentd::networks
