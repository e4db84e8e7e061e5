// Euler's method for the probability flow ODE in terms of sigma (arXiv 2206.00364, algorithm 1
// without noise):
//   x' = x + (sigma' - sigma) dx/dsigma
#include "core/schedulers/formulas/step_matrix.h"
#include "core/schedulers/grids/sigma_grid.h"
#include "core/schedulers/methods/scheduler.h"

namespace latentd::schedulers {
namespace {

constexpr absl::string_view kFields[] = {"use_karras_sigmas",
                                         "use_exponential_sigmas",
                                         "use_beta_sigmas",
                                         "sigma_min",
                                         "sigma_max",
                                         "interpolation_type",
                                         "timestep_type",
                                         "final_sigmas_type",
                                         "rescale_betas_zero_snr"};

absl::Status FillGrid(Grid& grid) {
  FillSigmaGrid(grid);
  return absl::OkStatus();
}

StepCoefficients Step(const Grid& grid, Point point) {
  const float sigma = grid.sigmas[point.index];
  StepMatrix matrix;
  matrix.at(kX, kX) = 1;
  matrix.Add(kX, static_cast<double>(grid.sigmas[point.index + 1]) - sigma,
             EstimateDerivative(grid.config.prediction_type, sigma));
  return {.input_scale = InputScale(sigma),
          .matrix = matrix.ToFloat(),
          .predicted = EstimateOriginal(grid.config.prediction_type, sigma).ToFloat()};
}

}  // namespace

constinit const Scheduler kEuler = {.class_name = "EulerDiscreteScheduler",
                                    .fields = kFields,
                                    .takes_timesteps = true,
                                    .takes_sigmas = true,
                                    .fill_grid = FillGrid,
                                    .step = Step,
                                    .start = StartFromSigma};

}  // namespace latentd::schedulers
