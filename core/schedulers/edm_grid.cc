#include "core/schedulers/edm_grid.h"

#include <cmath>

#include "core/schedulers/sigmas.h"

namespace latentd::schedulers {
namespace {

constexpr double kSigmaMin = 0.002;
constexpr double kSigmaMax = 80;

}  // namespace

std::optional<FieldViolation> FindEdmMistake(const SchedulerConfig& config) {
  if (config.prediction_type != PredictionType::kSample) return std::nullopt;
  return FieldViolation{"prediction_type",
                        "EDM's schedulers support epsilon and v_prediction, not sample, as in "
                        "diffusers"};
}

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

float EdmInputScale(const SchedulerConfig& config, double sigma) {
  return static_cast<float>(1 / std::hypot(sigma, config.sigma_data));
}

Estimate EdmOriginal(const SchedulerConfig& config, double sigma) {
  const double data = config.sigma_data;
  const double length = std::hypot(sigma, data);
  const double of_output = sigma * data / length;
  return {data * data / (length * length),
          config.prediction_type == PredictionType::kVPrediction ? -of_output : of_output};
}

}  // namespace latentd::schedulers
