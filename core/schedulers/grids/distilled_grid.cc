#include "core/schedulers/grids/distilled_grid.h"

#include <cmath>

#include "absl/strings/str_cat.h"
#include "core/schedulers/grids/alpha_grid.h"
#include "core/schedulers/grids/noise_schedule.h"
#include "core/schedulers/grids/sigmas.h"

namespace latentd::schedulers {
namespace {

// `steps` of the timesteps that the network was distilled at, evenly by index.
std::vector<double> DistilledTimesteps(const SchedulerConfig& config, int steps) {
  const int original = config.original_inference_steps;
  const int stride = config.num_train_timesteps / original;
  std::vector<double> timesteps(steps);
  for (int i = 0; i < steps; ++i) {
    const int from_last = static_cast<int>(std::floor(i * (static_cast<double>(original) / steps)));
    timesteps[i] = (original - from_last) * stride - 1;
  }
  return timesteps;
}

}  // namespace

std::optional<FieldViolation> FindDistilledMistake(const SchedulerConfig& config) {
  if (config.original_inference_steps <= config.num_train_timesteps) return std::nullopt;
  return FieldViolation{
      "original_inference_steps",
      absl::StrCat("must be at most num_train_timesteps, ", config.num_train_timesteps)};
}

absl::Status FillDistilledGrid(Grid& grid) {
  const ScheduleRequest& request = grid.request;
  if (!request.timesteps.empty() || SpreadsSigmas(grid.config)) return FillAlphaGrid(grid);
  if (request.num_inference_steps > grid.config.original_inference_steps) {
    return InvalidFields({{"num_inference_steps",
                           absl::StrCat("must be at most ", grid.config.original_inference_steps,
                                        " (original_inference_steps) with ", grid.config.name())}});
  }
  grid.alphas_cumprod = AlphasCumprod(grid.config);
  grid.timesteps = DistilledTimesteps(grid.config, request.num_inference_steps);
  return CheckTimesteps(grid);
}

}  // namespace latentd::schedulers
