// Euler's method with ancestral noise, as in k-diffusion: each step goes down to a lower sigma than
// the next one's and adds the noise that leads up again, with
//   up² = sigma'² (sigma² - sigma'²) / sigma²    down² = sigma'² - up²
//   x' = x + (down - sigma) dx/dsigma + up noise
#include "core/schedulers/formulas/shared_rules.h"
#include "core/schedulers/formulas/step_matrix.h"
#include "core/schedulers/grids/sigma_grid.h"
#include "core/schedulers/methods/scheduler.h"

namespace latentd::schedulers {
namespace {

constexpr absl::string_view kFields[] = {"rescale_betas_zero_snr"};

absl::Status FillGrid(Grid& grid) {
  FillSigmaGrid(grid);
  return absl::OkStatus();
}

StepCoefficients Step(const Grid& grid, Point point) {
  const float sigma = grid.sigmas[point.index];
  const double next = grid.sigmas[point.index + 1];
  StepMatrix matrix;
  matrix.at(kX, kX) = 1;
  matrix.Add(kX, AncestralDown(sigma, next) - sigma,
             EstimateDerivative(grid.config.prediction_type, sigma));
  matrix.at(kX, kNoise) = AncestralUp(sigma, next);
  return {.input_scale = InputScale(sigma),
          .matrix = matrix.ToFloat(),
          .draws_noise = true,
          .predicted = EstimateOriginal(grid.config.prediction_type, sigma).ToFloat()};
}

}  // namespace

constinit const Scheduler kEulerAncestral = {.class_name = "EulerAncestralDiscreteScheduler",
                                             .fields = kFields,
                                             .find_mistake = FindSample,
                                             .fill_grid = FillGrid,
                                             .step = Step,
                                             .start = StartFromSigma};

}  // namespace latentd::schedulers
