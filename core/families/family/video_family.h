// A VideoFamily is what a family has whose models draw videos of an image, in place of prompts and
// of the networks of images (core/pipeline/graphs/model_graphs.h).
//
// Rows are constants; their functions are pure.
#pragma once

#include <cstdint>
#include <vector>

#include "absl/status/statusor.h"
#include "core/device/buffer.h"
#include "core/device/dtype.h"
#include "core/device/shape.h"
#include "core/families/family/model_configs.h"
#include "core/graph/graph.h"
#include "core/image/pixels/pixels.h"
#include "core/pipeline/spec/request/video_spec.h"
#include "core/weights/containers/checkpoint.h"

namespace latentd::families {

// Names of the ports of its graphs, beside those of an image's step
// (core/pipeline/graphs/step_graph.h).
inline constexpr char kImageEncoder[] = "image_encoder";  // the component
inline constexpr char kPixelValues[] = "pixel_values", kImageEmbeds[] = "image_embeds";
inline constexpr char kImageLatents[] = "image_latents", kNoiseStrength[] = "noise_aug_strength";
inline constexpr char kFrameGuidance[] = "guidance_scale", kTimeIds[] = "time_ids";
// Ports of a part of the decoder: what it reads of the one before, and gives to the next.
inline constexpr char kFeatures[] = "features", kNextFeatures[] = "next_features";

// Rows of a step, frames of each, and the size of their latents.
struct FramesShape {
  int64_t rows = 1, frames = 1, height = 1, width = 1;
};

// A part of the decoder, by its number from 1 on; 0: all of it. Parts exchange values in `dtype`,
// in which the network computes: then they compute the bytes of the whole.
struct DecoderPart {
  int number = 0;
  device::DType dtype = device::DType::kF32;
};

struct VideoFamily {
  // Configurations of such a checkpoint. Errors name the file or component at fault.
  absl::StatusOr<ModelConfigs> (*read)(const weights::Checkpoint& checkpoint);
  // Frames of the videos that it was trained on.
  int (*frames)(const ModelConfigs& configs);

  // The spec with every default. INVALID_ARGUMENT with a field violation for each field at fault.
  absl::StatusOr<pipeline::VideoSpec> (*resolve)(const ModelConfigs& configs,
                                                 const pipeline::VideoSpec& spec);
  // Values of a resolved spec: the guidance of each frame; whether there is any, so that an
  // evaluation is of two rows; and the numbers that the network is told.
  std::vector<float> (*guidance)(const pipeline::VideoSpec& resolved);
  bool (*is_guided)(const pipeline::VideoSpec& resolved);
  std::vector<float> (*time_ids)(const pipeline::VideoSpec& resolved);

  // The image as the image encoder sees it, and as the VAE does. INVALID_ARGUMENT: it is too small.
  absl::StatusOr<device::Buffer> (*encoder_pixels)(const ModelConfigs& configs,
                                                   const image::Image& image);
  absl::StatusOr<device::Buffer> (*vae_pixels)(const image::Image& image, int width, int height);

  // Graphs of the image encoder, of the image's latents, of a step, and of frames that are decoded
  // together; each has an output "finite" too. The step has the ports of an image's but for
  // guidance_rescale.
  absl::StatusOr<graph::Graph> (*encoder_graph)(const ModelConfigs& configs);
  absl::StatusOr<graph::Graph> (*latents_graph)(const ModelConfigs& configs, int64_t height,
                                                int64_t width);
  absl::StatusOr<graph::Graph> (*step_graph)(const ModelConfigs& configs, const FramesShape& shape);
  absl::StatusOr<graph::Graph> (*frames_graph)(const ModelConfigs& configs,
                                               const FramesShape& shape, const DecoderPart& part);
  // Parts that the last one may be cut into; and the shape of what one but the first reads.
  int (*decoder_parts)(const ModelConfigs& configs);
  device::Shape (*features_shape)(const ModelConfigs& configs, const FramesShape& shape, int part);
  // In what the second one computes where the others do in `dtype`.
  device::DType (*latents_dtype)(const ModelConfigs& configs, device::DType dtype);
};

}  // namespace latentd::families
