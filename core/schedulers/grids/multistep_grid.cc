#include "core/schedulers/grids/multistep_grid.h"

#include <algorithm>
#include <cmath>

#include "core/base/errors/error_details.h"
#include "core/schedulers/grids/noise_schedule.h"
#include "core/schedulers/grids/sigmas.h"
#include "core/schedulers/grids/timesteps.h"

namespace latentd::schedulers {
namespace {

// How many training timesteps there are from 0 up to where the logarithm of signal / noise falls
// below lambda_min_clipped.
int UsableTimesteps(const SchedulerConfig& config, absl::Span<const float> training) {
  int count = static_cast<int>(training.size());
  while (count > 0 && -std::log(training[count - 1]) < config.lambda_min_clipped) --count;
  return count;
}

// Unlike other schedulers, these space one timestep more than there are steps, and leave out the
// last.
std::vector<double> SpacedTimesteps(const SchedulerConfig& config, int usable, int steps) {
  std::vector<double> timesteps;
  switch (config.timestep_spacing) {
    case TimestepSpacing::kTrailing:
      return Trailing(usable, static_cast<double>(config.num_train_timesteps) / steps);
    case TimestepSpacing::kLinspace:
      timesteps = Linspace(0, usable - 1, steps + 1);
      for (double& timestep : timesteps) timestep = std::nearbyint(timestep);
      break;
    case TimestepSpacing::kLeading: {
      const int stride = usable / (steps + 1);
      for (int i = 0; i <= steps; ++i) timesteps.push_back(i * stride + config.steps_offset);
      break;
    }
  }
  std::reverse(timesteps.begin(), timesteps.end());
  timesteps.pop_back();
  return timesteps;
}

bool Rounds(const SchedulerConfig& config, SpreadRule rule) {
  return (config.use_karras_sigmas || config.use_lu_lambdas) &&
         (rule != SpreadRule::kDpmSolver || config.beta_schedule != BetaSchedule::kSquaredcosCapV2);
}

std::vector<double> TimestepsOf(bool rounds, absl::Span<const double> sigmas,
                                absl::Span<const float> training) {
  const std::vector<float> logs = LogSigmas(training);
  std::vector<double> timesteps;
  for (double sigma : sigmas) {
    const double timestep = TimestepOfSigma(sigma, logs);
    timesteps.push_back(rounds ? std::nearbyint(timestep) : timestep);
  }
  return timesteps;
}

}  // namespace

absl::Status FillMultistepGrid(Grid& grid, SpreadRule rule) {
  const SchedulerConfig& config = grid.config;
  const int steps = grid.request.num_inference_steps;
  const std::vector<float> training = TrainingSigmas(config);
  const int usable = UsableTimesteps(config, training);
  if (usable == 0) return InvalidFields({{"lambda_min_clipped", "leaves no training timestep"}});
  std::vector<double> sigmas;
  if (SpreadsSigmas(config)) {
    sigmas = SpreadSigmas(config, training, training.back(), training.front(), steps);
    grid.timesteps = TimestepsOf(Rounds(config, rule), sigmas, training);
  } else {
    grid.timesteps = grid.request.timesteps.empty() ? SpacedTimesteps(config, usable, steps)
                                                    : grid.request.timesteps;
  }
  if (!config.named_grid) {
    for (double& timestep : grid.timesteps) timestep = std::trunc(timestep);
  }
  const bool repeats_last = rule == SpreadRule::kUniPc && !sigmas.empty() && !config.named_grid &&
                            config.final_sigmas_type == FinalSigmas::kSigmaMin;
  if (sigmas.empty()) sigmas = SigmasAt(training, grid.timesteps);
  grid.sigmas = WithFinal(
      sigmas, repeats_last ? static_cast<float>(sigmas.back()) : FinalSigma(config, training));
  return absl::OkStatus();
}

StartScales StartFromVpSigma(const Grid& grid, int index) {
  const double signal = SignalAt(grid.sigmas[index]);
  return {signal, grid.sigmas[index] * signal};
}

}  // namespace latentd::schedulers
