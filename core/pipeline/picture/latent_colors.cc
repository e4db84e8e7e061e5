#include "core/pipeline/picture/latent_colors.h"

#include <cmath>

#include "absl/algorithm/container.h"

namespace latentd::pipeline {
namespace {

// A VAE, told by its scaling alone, and the map of its latents.
struct KnownVae {
  double scaling_factor;
  std::array<Color, 4> factors;
  Color bias;
};

constexpr KnownVae kKnown[] = {
    // SDXL's: fitted to photographs; ComfyUI and stable-diffusion.cpp use the same numbers.
    {0.13025,
     {{{0.3651f, 0.4232f, 0.4341f},
       {-0.2533f, -0.0042f, 0.1068f},
       {0.1076f, 0.1111f, -0.0362f},
       {-0.3165f, -0.2492f, -0.2188f}}},
     {0.1084f, -0.0175f, -0.0011f}},
    // Stable Diffusion 1's and 2's: those of ComfyUI.
    {0.18215,
     {{{0.3512f, 0.2297f, 0.3227f},
       {0.3250f, 0.4974f, 0.2350f},
       {-0.2829f, 0.1762f, 0.2721f},
       {-0.2120f, -0.2616f, -0.7177f}}},
     {}},
    // The demo checkpoint's: least squares over what its decoder makes of squares of random
    // latents.
    {0.92808,
     {{{0.0993f, 0.0504f, -0.2383f},
       {0.1466f, 0.0412f, 0.1111f},
       {-0.0193f, 0.0835f, -0.0675f},
       {0.1360f, 0.0302f, 0.0596f}}},
     {-0.0598f, -0.1690f, -0.0091f}}};

}  // namespace

std::optional<LatentColors> KnownColors(const VaeConfig& vae) {
  const auto* kl = std::get_if<networks::AutoencoderKlConfig>(&vae);
  if (kl == nullptr || kl->shift_factor || kl->latents_mean || kl->latents_std) return std::nullopt;
  const auto* known = absl::c_find_if(kKnown, [kl](const KnownVae& one) {
    return kl->latent_channels == static_cast<int64_t>(one.factors.size()) &&
           std::abs(kl->scaling_factor - one.scaling_factor) <= 1e-6;
  });
  if (known == std::end(kKnown)) return std::nullopt;
  return LatentColors{{known->factors.begin(), known->factors.end()}, known->bias};
}

}  // namespace latentd::pipeline
