// The colours of latents as a linear map, for previews: a pixel for each latent, at once, where the
// decoder takes as long as several steps.
//
// Checkpoints that were tuned from a family share its VAE, and so its map; to any other VAE that
// means nothing. Previews of a VAE without a known map need a tiny VAE.
//
// Pure functions.
#pragma once

#include <array>
#include <optional>
#include <vector>

#include "core/pipeline/graphs/vae_graph.h"

namespace latentd::pipeline {

using Color = std::array<float, 3>;  // red, green, blue from -1 to 1

// colour = bias + the sum over channels of latent * factor
struct LatentColors {
  std::vector<Color> factors;
  Color bias{};
};

// The map of a VAE with that scaling; absent: none is known.
std::optional<LatentColors> KnownColors(const VaeConfig& vae);

}  // namespace latentd::pipeline
