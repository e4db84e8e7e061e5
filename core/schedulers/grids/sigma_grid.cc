#include "core/schedulers/grids/sigma_grid.h"

#include <algorithm>
#include <cmath>

#include "core/schedulers/grids/noise_schedule.h"
#include "core/schedulers/grids/sigmas.h"
#include "core/schedulers/grids/timesteps.h"

namespace latentd::schedulers {
namespace {

template <typename Sigma>
std::vector<double> TimestepsOf(absl::Span<const Sigma> sigmas, absl::Span<const float> training) {
  const std::vector<float> logs = LogSigmas(training);
  std::vector<double> timesteps;
  for (Sigma sigma : sigmas) timesteps.push_back(TimestepOfSigma(sigma, logs));
  return timesteps;
}

void RoundToFloat(std::vector<double>& values) {
  for (double& value : values) value = static_cast<float>(value);
}

// Evenly in the logarithm over the whole training range; one more than there are steps.
std::vector<double> LogLinear(absl::Span<const float> training, size_t steps) {
  std::vector<float> sigmas = LinspaceFloat(std::log(training.back()), std::log(training.front()),
                                            static_cast<int>(steps) + 1);
  for (float& value : sigmas) value = std::exp(value);
  return {sigmas.begin(), sigmas.end()};
}

void FillFromSigmas(Grid& grid, absl::Span<const float> training) {
  grid.sigmas = {grid.request.sigmas.begin(), grid.request.sigmas.end()};
  grid.timesteps =
      TimestepsOf(absl::MakeConstSpan(grid.sigmas).first(grid.sigmas.size() - 1), training);
}

void FillFromTimesteps(Grid& grid, absl::Span<const float> training) {
  const SchedulerConfig& config = grid.config;
  const ScheduleRequest& request = grid.request;
  grid.timesteps = request.timesteps.empty() ? SpacedTimesteps(config, request.num_inference_steps)
                                             : request.timesteps;
  RoundToFloat(grid.timesteps);
  const int steps = request.timesteps.empty() ? request.num_inference_steps
                                              : static_cast<int>(request.timesteps.size());
  std::vector<double> sigmas = config.interpolation_type == Interpolation::kLogLinear
                                   ? LogLinear(training, steps)
                                   : SigmasAt(training, grid.timesteps);
  if (SpreadsSigmas(config)) {
    sigmas = SpreadSigmas(config, training, sigmas.front(), sigmas.back(), steps);
    grid.timesteps = TimestepsOf(absl::MakeConstSpan(sigmas), training);
  }
  grid.sigmas = WithFinal(sigmas, FinalSigma(config, training));
}

}  // namespace

void FillSigmaGrid(Grid& grid) {
  const std::vector<float> training = TrainingSigmas(grid.config);
  if (grid.request.sigmas.empty()) {
    FillFromTimesteps(grid, training);
  } else {
    FillFromSigmas(grid, training);
  }
  if (grid.config.timestep_type == TimestepType::kContinuous &&
      grid.config.prediction_type == PredictionType::kVPrediction) {
    grid.timesteps.clear();
    for (size_t i = 0; i + 1 < grid.sigmas.size(); ++i) {
      grid.timesteps.push_back(0.25f * std::log(grid.sigmas[i]));
    }
  }
  RoundToFloat(grid.timesteps);
  grid.initial_noise_scale = InitialNoiseScale(grid.config, grid.sigmas);
}

StartScales StartFromSigma(const Grid& grid, int index) { return {1, grid.sigmas[index]}; }

}  // namespace latentd::schedulers
