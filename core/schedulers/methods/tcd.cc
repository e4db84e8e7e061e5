// Trajectory consistency distillation (arXiv 2402.19159, algorithm 4): with signal² = alpha at the
// timestep and alpha' at the next timestep t' (0 after the last), and alpha_s at s = (1 - eta) t',
//   y = √alpha_s x0 + √(1 - alpha_s) n    x' = √(alpha' / alpha_s) y + √(1 - alpha' / alpha_s)
//   noise
// and the last step gives y itself.
#include <algorithm>
#include <cmath>

#include "core/schedulers/formulas/step_matrix.h"
#include "core/schedulers/grids/alpha_grid.h"
#include "core/schedulers/grids/distilled_grid.h"
#include "core/schedulers/methods/scheduler.h"

namespace latentd::schedulers {
namespace {

constexpr absl::string_view kFields[] = {"original_inference_steps", "rescale_betas_zero_snr"};

void SetDefaults(SchedulerConfig& config) {
  config.beta_start = 0.00085;
  config.beta_end = 0.012;
  config.beta_schedule = BetaSchedule::kScaledLinear;
}

StepCoefficients Step(const Grid& grid, Point point) {
  const PredictionType type = grid.config.prediction_type;
  const bool last = point.index + 1 == static_cast<int>(grid.timesteps.size());
  const int next = last ? 0 : static_cast<int>(grid.timesteps[point.index + 1]);
  const double eta = grid.request.eta;
  // In float32, as torch.
  const int between = static_cast<int>(static_cast<float>(1 - eta) * static_cast<float>(next));

  const double alpha = AlphaAt(grid, static_cast<int>(grid.timesteps[point.index]));
  const double alpha_between = AlphaAt(grid, between);
  const bool draws = eta > 0 && !last;
  const double kept = draws ? AlphaAt(grid, next) / alpha_between : 1;

  const double signal = std::sqrt(alpha);
  const double noise = std::sqrt(1 - alpha);
  const Estimate original = EstimateSignal(type, signal, noise);
  StepMatrix matrix;
  matrix.Add(kX, std::sqrt(kept * alpha_between), original);
  matrix.Add(kX, std::sqrt(kept * (1 - alpha_between)), EstimateNoise(type, signal, noise));
  matrix.at(kX, kNoise) = std::sqrt(std::max(1 - kept, 0.0));
  return {.matrix = matrix.ToFloat(), .draws_noise = draws, .predicted = original.ToFloat()};
}

}  // namespace

constinit const Scheduler kTcd = {.class_name = "TCDScheduler",
                                  .fields = kFields,
                                  .set_defaults = SetDefaults,
                                  .find_mistake = FindDistilledMistake,
                                  .takes_timesteps = true,
                                  .takes_eta = true,
                                  .fill_grid = FillDistilledGrid,
                                  .step = Step,
                                  .start = StartFromAlpha};

}  // namespace latentd::schedulers
