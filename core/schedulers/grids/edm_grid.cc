#include "core/schedulers/grids/edm_grid.h"

#include <cmath>

#include "core/schedulers/grids/sigmas.h"

namespace latentd::schedulers {
namespace {

constexpr double kSigmaMin = 0.002;
constexpr double kSigmaMax = 80;

}  // namespace

void FillEdmGrid(Grid& grid) {
  const SchedulerConfig& config = grid.config;
  const double max = config.sigma_max.value_or(kSigmaMax);
  const double min = config.sigma_min.value_or(kSigmaMin);
  const int steps = grid.request.num_inference_steps;
  // diffusers spaces exponential ones upwards: a single one is the least.
  const std::vector<double> sigmas = config.sigma_schedule == SigmaSchedule::kKarras
                                         ? KarrasSigmas(max, min, steps, config.rho)
                                         : ExponentialSigmas(steps == 1 ? min : max, min, steps);
  const bool ends = config.final_sigmas_type == FinalSigmas::kZero;
  grid.sigmas = WithFinal(sigmas, ends ? 0.0f : static_cast<float>(min));
  for (int i = 0; i < steps; ++i) grid.timesteps.push_back(0.25f * std::log(grid.sigmas[i]));
  grid.initial_noise_scale = std::sqrt(max * max + 1);
}

}  // namespace latentd::schedulers
