// The colours of latents as a linear map, for previews: a pixel for each latent, at once, where the
// decoder takes as long as several steps.
//
// Checkpoints that were tuned from SDXL share its VAE, and for that one the field has a map: the
// numbers that ComfyUI and stable-diffusion.cpp use, fitted to photographs. To any other VAE they
// mean nothing (to the demo checkpoint's nearly the negative), and a VAE of one's own is told by
// its scaling. For such a one the map is fitted by the first picture of each request that wants
// previews: the decoder that will draw the picture draws latents that are known, and least squares
// say what colours it gives them. That costs such a request one more decode, and no other anything.
//
// Pure functions.
#pragma once

#include <array>
#include <optional>
#include <vector>

#include "core/device/buffer.h"
#include "core/device/shape.h"
#include "core/pipeline/vae_graph.h"

namespace latentd::pipeline {

using Color = std::array<float, 3>;  // red, green, blue from -1 to 1

// colour = bias + the sum over channels of latent * factor
struct LatentColors {
  std::vector<Color> factors;
  Color bias{};
};

// SDXL's, if the VAE is SDXL's.
std::optional<LatentColors> KnownColors(const VaeConfig& vae);

// Latents [1, C, h, w] to fit colours by: squares of random ones, always the same.
device::Buffer ColorSamples(const device::Shape& shape);

// From them and what a decoder made of them, u8 [1, H, W, 3]. REQUIRES: both are on the host.
LatentColors FitColors(const device::ConstBuffer& latents, const device::ConstBuffer& pixels);

}  // namespace latentd::pipeline
