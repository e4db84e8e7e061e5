// Multistep consistency sampling of latent consistency models (arXiv 2310.04378, algorithm 3). With
// c_skip and c_out of the boundary condition at the scaled timestep and alpha' at the next
// timestep,
//   denoised = c_skip x + c_out x0        x' = √alpha' denoised + √(1 - alpha') noise
// and the last step gives the denoised latents themselves.
#include <algorithm>
#include <cmath>

#include "core/schedulers/formulas/step_matrix.h"
#include "core/schedulers/grids/alpha_grid.h"
#include "core/schedulers/grids/distilled_grid.h"
#include "core/schedulers/methods/scheduler.h"

namespace latentd::schedulers {
namespace {

constexpr double kSigmaData = 0.5;

constexpr absl::string_view kFields[] = {"clip_sample",      "set_alpha_to_one",
                                         "thresholding",     "original_inference_steps",
                                         "timestep_scaling", "rescale_betas_zero_snr"};

void SetDefaults(SchedulerConfig& config) {
  config.beta_start = 0.00085;
  config.beta_end = 0.012;
  config.beta_schedule = BetaSchedule::kScaledLinear;
  config.timestep_spacing = TimestepSpacing::kLeading;
}

StepCoefficients Step(const Grid& grid, Point point) {
  const double timestep = grid.timesteps[point.index];
  const double scaled = timestep * grid.config.timestep_scaling;
  const double divisor = scaled * scaled + kSigmaData * kSigmaData;
  const double skip = kSigmaData * kSigmaData / divisor;
  const double out = scaled / std::sqrt(divisor);

  const bool last = point.index + 1 == static_cast<int>(grid.timesteps.size());
  const double next = last ? 1 : AlphaAt(grid, static_cast<int>(grid.timesteps[point.index + 1]));
  const double alpha = AlphaAt(grid, static_cast<int>(timestep));
  const Estimate original =
      EstimateSignal(grid.config.prediction_type, std::sqrt(alpha), std::sqrt(1 - alpha));
  StepMatrix matrix;
  matrix.at(kX, kX) = std::sqrt(next) * skip;
  matrix.Add(kX, std::sqrt(next) * out, original);
  matrix.at(kX, kNoise) = std::sqrt(1 - next);
  return {.matrix = matrix.ToFloat(), .draws_noise = !last, .predicted = original.ToFloat()};
}

}  // namespace

constinit const Scheduler kLcm = {.class_name = "LCMScheduler",
                                  .fields = kFields,
                                  .set_defaults = SetDefaults,
                                  .find_mistake = FindDistilledMistake,
                                  .takes_timesteps = true,
                                  .fill_grid = FillDistilledGrid,
                                  .step = Step,
                                  .start = StartFromAlpha};

}  // namespace latentd::schedulers
