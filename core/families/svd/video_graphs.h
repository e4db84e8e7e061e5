// The graphs that a video is drawn with, by families::svd's networks. Each has, beside what is said
// of it, an output "finite" u8: 1 for a row of the others whose elements all are.
//
// Pure functions.
#pragma once

#include <cstdint>

#include "absl/status/statusor.h"
#include "core/device/dtype.h"
#include "core/device/shape.h"
#include "core/families/svd/video_configs.h"
#include "core/graph/graph.h"

namespace latentd::families::svd {

// "pixel_values" f32 [1, 3, 224, 224] (video_image.h) -> "image_embeds" f32 [1, features].
absl::StatusOr<graph::Graph> MakeImageEncoderGraph(const VideoConfigs& configs);

// "image" u8 [1, H, W, 3], "noise" f32 [1, 3, H, W], "noise_aug_strength" f32 [1] ->
// "image_latents" f32 [1, channels * h * w]: the mean of the encoded image with noise on it, which
// diffusers does not scale.
absl::StatusOr<graph::Graph> MakeImageLatentsGraph(const VideoConfigs& configs, int64_t height,
                                                   int64_t width);

// The dtype that this one computes in where the others have `dtype`: f32 instead of f16 where the
// VAE's force_upcast says so, as in diffusers. The decoder computes in `dtype` whatever it says.
device::DType ImageLatentsDType(const VideoConfigs& configs, device::DType dtype);

struct VideoShape {
  int64_t rows = 1;
  int64_t frames = 1;
  int64_t height = 1, width = 1;  // latents
};

// The work of a step: input scaling -> UNet -> guidance by frame -> noise scheduler. Inputs, for R
// rows of latents of N = frames * channels * h * w elements:
//   state [R, 4, N], step i64 [R], table [R, kMaxEvaluations, 27], noise [R, N],
//   negative_rows i64 [R], text_rows i64 [R]
//                             as of core/pipeline/graphs/step_graph.h; the image stands for the
//                             text
//   guidance_scale [R, frames]
//   image_latents [R, channels * h * w]: zeros in a negative row
//   request rate: image_embeds [R, features], zeros in a negative row; time_ids [R, 3]
// Outputs: state and step, which update the inputs of that name.
absl::StatusOr<graph::Graph> MakeVideoStepGraph(const VideoConfigs& configs,
                                                const VideoShape& shape);

// "latents" f32 [frames, channels, h, w], as the UNet has them, of frames that are decoded together
// -> "pixels" u8 [frames, H, W, 3].
absl::StatusOr<graph::Graph> MakeFramesGraph(const VideoConfigs& configs, const VideoShape& chunk);

// A part of that graph (networks::DecoderPartsOf), by its number from 1 on. The first reads
// "latents", and the others "features", what the part before gives as "next_features": channels
// last, in `dtype`, which is to be what the network computes in, so that the parts' bytes are the
// whole's. The last gives "pixels" and "finite".
absl::StatusOr<graph::Graph> MakeFramesPartGraph(const VideoConfigs& configs,
                                                 const VideoShape& chunk, int part,
                                                 device::DType dtype);

// Shape of a part's "features". REQUIRES: it is not the first.
device::Shape FeaturesShape(const VideoConfigs& configs, const VideoShape& chunk, int part);

}  // namespace latentd::families::svd
