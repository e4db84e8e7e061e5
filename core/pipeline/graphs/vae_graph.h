// The autoencoder's graphs: decoding and encoding, which share nothing but weights, whole or in
// tiles, and what lies between what was encoded and the UNet.
#pragma once

#include "absl/status/statusor.h"
#include "absl/strings/string_view.h"
#include "core/graph/graph.h"
#include "core/networks/autoencoder.h"
#include "core/pipeline/graphs/tiles.h"

namespace latentd::pipeline {

using networks::VaeConfig;

// "latents" [1, C, h, w] as the UNet has them -> "pixels" u8 [1, H, W, 3] and "finite" u8 [1]: 0 if
// some pixel was NaN or infinite before it was made a byte. Its weights are those of `component`.
absl::StatusOr<graph::Graph> MakeDecodeGraph(const VaeConfig& config, const TileGrid& tiles,
                                             absl::string_view component = "vae");

// "image" u8 [1, H, W, 3] -> "moments": [1, 2C, h, w] of AutoencoderKL's distribution, or
// AutoencoderTiny's latents [1, C, h, w]; and "finite" u8 [1] of them. With `masked` there is
// "keep" u8 [1, H, W, 1] too: 1, or 0 where the image is taken for grey, as diffusers' masked_image
// is.
absl::StatusOr<graph::Graph> MakeEncodeGraph(const VaeConfig& config, const TileGrid& tiles,
                                             bool masked = false);

// Encoder outputs to latents for the UNet: "moments", as above; for a distribution "sample_noise"
// [1, C, h, w], with which the sample mean + exp(log variance / 2) * noise is drawn; "noise" [1, C,
// h, w], "image_scale" [1] and "noise_scale" [1]; "mask" [1, 1, h, w] of zeros and ones and "drawn"
// [1, C, h, w] -> "latents" = image_scale * sample + noise_scale * noise, and where the mask is 1,
// "drawn". So a picture begins, without a mask, and so diffusers' inpainting puts the image back
// after every step of a UNet that knows of no mask.
absl::StatusOr<graph::Graph> MakeSampleGraph(const VaeConfig& config, int64_t height,
                                             int64_t width);

}  // namespace latentd::pipeline
