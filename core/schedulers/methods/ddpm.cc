// Denoising diffusion probabilistic models (arXiv 2006.11239, equation 7). With signal² = alpha at
// the timestep and alpha' at the run's next one (1 after the last), and beta = 1 - alpha / alpha',
//   x' = √alpha' beta / (1 - alpha) x0 + √(1 - beta) (1 - alpha') / (1 - alpha) x + √variance noise
//   variance = (1 - alpha') / (1 - alpha) beta (fixed_small), or beta (fixed_large)
// without noise at timestep 0.
#include <algorithm>
#include <cmath>

#include "core/schedulers/formulas/step_matrix.h"
#include "core/schedulers/grids/alpha_grid.h"
#include "core/schedulers/methods/scheduler.h"

namespace latentd::schedulers {
namespace {

constexpr double kLeastVariance = 1e-20;  // as in diffusers

constexpr absl::string_view kFields[] = {"clip_sample", "thresholding", "variance_type",
                                         "rescale_betas_zero_snr"};

void SetDefaults(SchedulerConfig& config) {
  config.timestep_spacing = TimestepSpacing::kLeading;
  config.clip_sample = true;
}

std::optional<FieldViolation> FindMistake(const SchedulerConfig& config) {
  if (config.variance_type != VarianceType::kFixedLargeLog) return std::nullopt;
  return FieldViolation{"variance_type",
                        "must be fixed_small, fixed_small_log or fixed_large: of fixed_large_log "
                        "diffusers takes the root of a negative number"};
}

StepCoefficients Step(const Grid& grid, Point point) {
  const PredictionType type = grid.config.prediction_type;
  const int timestep = static_cast<int>(grid.timesteps[point.index]);
  const bool last = point.index + 1 == static_cast<int>(grid.timesteps.size());
  const int next = last ? -1 : static_cast<int>(grid.timesteps[point.index + 1]);
  const double alpha = AlphaAt(grid, timestep);
  const double alpha_next = next >= 0 ? AlphaAt(grid, next) : 1;
  const double beta = 1 - alpha / alpha_next;
  const double below = (1 - alpha_next) / (1 - alpha);

  const Estimate original = EstimateSignal(type, std::sqrt(alpha), std::sqrt(1 - alpha));
  StepMatrix matrix;
  matrix.at(kX, kX) = std::sqrt(1 - beta) * below;
  matrix.Add(kX, std::sqrt(alpha_next) * beta / (1 - alpha), original);
  const bool large = grid.config.variance_type == VarianceType::kFixedLarge;
  const double variance = large ? beta : std::max(below * beta, kLeastVariance);
  matrix.at(kX, kNoise) = timestep > 0 ? std::sqrt(variance) : 0;
  return {.matrix = matrix.ToFloat(), .draws_noise = timestep > 0, .predicted = original.ToFloat()};
}

}  // namespace

constinit const Scheduler kDdpm = {.class_name = "DDPMScheduler",
                                   .fields = kFields,
                                   .set_defaults = SetDefaults,
                                   .find_mistake = FindMistake,
                                   .takes_timesteps = true,
                                   .fill_grid = FillAlphaGrid,
                                   .step = Step,
                                   .start = StartFromAlpha};

}  // namespace latentd::schedulers
