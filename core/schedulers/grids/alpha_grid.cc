#include "core/schedulers/grids/alpha_grid.h"

#include <cmath>

#include "absl/strings/str_cat.h"
#include "core/base/errors/error_details.h"
#include "core/schedulers/grids/noise_schedule.h"
#include "core/schedulers/grids/sigmas.h"
#include "core/schedulers/grids/timesteps.h"

namespace latentd::schedulers {

double AlphaAt(const Grid& grid, int timestep) {
  const int count = static_cast<int>(grid.alphas_cumprod.size());
  return grid.alphas_cumprod[timestep < 0 ? timestep + count : timestep];
}

double FinalAlpha(const Grid& grid) {
  return grid.config.set_alpha_to_one ? 1.0 : grid.alphas_cumprod.front();
}

absl::Status FillAlphaGrid(Grid& grid) {
  const SchedulerConfig& config = grid.config;
  const int steps = grid.request.num_inference_steps;
  grid.alphas_cumprod = AlphasCumprod(config);
  if (!grid.request.timesteps.empty()) {
    grid.timesteps = grid.request.timesteps;
    for (double& timestep : grid.timesteps) timestep = std::trunc(timestep);
  } else {
    grid.timesteps =
        SpreadsSigmas(config) ? SpreadTimesteps(config, steps) : SpacedTimesteps(config, steps);
    for (double& timestep : grid.timesteps) timestep = std::nearbyint(timestep);
  }
  return CheckTimesteps(grid);
}

absl::Status CheckTimesteps(const Grid& grid) {
  const int count = static_cast<int>(grid.alphas_cumprod.size());
  for (double timestep : grid.timesteps) {
    if (-count <= timestep && timestep < count) continue;
    return InvalidFields(
        {{"num_inference_steps",
          absl::StrCat("so many steps with steps_offset ", grid.config.steps_offset,
                       " reach timestep ", timestep, "; the last is ", count - 1)}});
  }
  return absl::OkStatus();
}

StartScales StartFromAlpha(const Grid& grid, int index) {
  const double alpha = AlphaAt(grid, static_cast<int>(grid.timesteps[index]));
  return {std::sqrt(alpha), std::sqrt(1 - alpha)};
}

}  // namespace latentd::schedulers
