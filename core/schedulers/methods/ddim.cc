// Denoising diffusion implicit models (arXiv 2010.02502, equations 12 and 16). With signal² = alpha
// at the timestep and alpha' one stride of training timesteps below,
//   variance = (1 - alpha') / (1 - alpha) (1 - alpha / alpha')     std = eta √variance
//   x' = √alpha' x0 + √(1 - alpha' - std²) n + std noise
#include <algorithm>
#include <cmath>

#include "core/schedulers/formulas/step_matrix.h"
#include "core/schedulers/grids/alpha_grid.h"
#include "core/schedulers/methods/scheduler.h"

namespace latentd::schedulers {
namespace {

constexpr absl::string_view kFields[] = {"clip_sample", "set_alpha_to_one", "thresholding",
                                         "rescale_betas_zero_snr"};

void SetDefaults(SchedulerConfig& config) {
  config.timestep_spacing = TimestepSpacing::kLeading;
  config.clip_sample = true;
}

StepCoefficients Step(const Grid& grid, Point point) {
  const PredictionType type = grid.config.prediction_type;
  const int timestep = static_cast<int>(grid.timesteps[point.index]);
  const int next = timestep - grid.config.num_train_timesteps / grid.request.num_inference_steps;
  const double alpha = AlphaAt(grid, timestep);
  const double alpha_next = next >= 0 ? AlphaAt(grid, next) : FinalAlpha(grid);
  const double variance = (1 - alpha_next) / (1 - alpha) * (1 - alpha / alpha_next);
  const double deviation = grid.request.eta * std::sqrt(std::max(variance, 0.0));

  const double signal = std::sqrt(alpha);
  const double noise = std::sqrt(1 - alpha);
  const double direction = std::max(1 - alpha_next - deviation * deviation, 0.0);
  const Estimate original = EstimateSignal(type, signal, noise);
  StepMatrix matrix;
  matrix.Add(kX, std::sqrt(alpha_next), original);
  matrix.Add(kX, std::sqrt(direction), EstimateNoise(type, signal, noise));
  matrix.at(kX, kNoise) = deviation;
  return {.matrix = matrix.ToFloat(),
          .draws_noise = grid.request.eta > 0,
          .predicted = original.ToFloat()};
}

}  // namespace

constinit const Scheduler kDdim = {.class_name = "DDIMScheduler",
                                   .fields = kFields,
                                   .has_own_grid = true,
                                   .set_defaults = SetDefaults,
                                   .takes_eta = true,
                                   .fill_grid = FillAlphaGrid,
                                   .step = Step,
                                   .start = StartFromAlpha};

}  // namespace latentd::schedulers
