// The autoencoder's two graphs, which share nothing but weights, and the scaling of latents between
// it and the UNet.
#pragma once

#include <variant>

#include "absl/status/statusor.h"
#include "core/device/buffer.h"
#include "core/graph/graph.h"
#include "core/graph/graph_builder.h"
#include "core/models/autoencoder_kl.h"
#include "core/models/autoencoder_tiny.h"
#include "core/noise/noise_generator.h"

namespace latentd::pipeline {

using VaeConfig = std::variant<models::AutoencoderKlConfig, models::AutoencoderTinyConfig>;

// Pixels that one latent pixel stands for in each direction.
int DownscaleOf(const VaeConfig& config);
int64_t LatentChannelsOf(const VaeConfig& config);

// "latents" [1, C, h, w] as the UNet has them -> "image" [1, 3, H, W], about [-1, 1].
absl::StatusOr<graph::Graph> MakeDecodeGraph(const VaeConfig& config, int64_t height, int64_t width,
                                             graph::GraphBuilder::StoredDType stored_dtype);

// "image" [1, 3, H, W] -> "encoded": the moments [1, 2C, h, w] of AutoencoderKL's distribution, or
// AutoencoderTiny's latents [1, C, h, w]. `height` and `width` are those of the latents.
absl::StatusOr<graph::Graph> MakeEncodeGraph(const VaeConfig& config, int64_t height, int64_t width,
                                             graph::GraphBuilder::StoredDType stored_dtype);

// What was encoded to latents for the UNet: of a distribution, the sample mean + exp(log variance /
// 2) * noise, with one draw from the generator.
device::Buffer ToLatents(const VaeConfig& config, const device::Buffer& encoded,
                         noise::NoiseGenerator& generator);

}  // namespace latentd::pipeline
