// Heun's method (arXiv 2206.00364, algorithm 1 without noise): a step of Euler's, then again from
// where it began, with the mean of the derivatives at both ends:
//   d = dx/dsigma at x, x1 = x + (sigma' - sigma) d       and       x' = x + (sigma' - sigma) (d +
//   d1) / 2, d1 at x1
// Two evaluations a step; one for the last, which ends at sigma = 0, where there is no derivative.
// Between the two, h1 holds x and h2 holds d.
#include "core/schedulers/formulas/shared_rules.h"
#include "core/schedulers/formulas/step_matrix.h"
#include "core/schedulers/grids/sigma_grid.h"
#include "core/schedulers/methods/scheduler.h"

namespace latentd::schedulers {
namespace {

// diffusers registers sigma_min and sigma_max of another scheduler's file and reads them.
constexpr absl::string_view kFields[] = {"use_karras_sigmas", "use_exponential_sigmas",
                                         "use_beta_sigmas",   "sigma_min",
                                         "sigma_max",         "clip_sample"};

// All but the first timestep, and the sigmas of all but the first and the final one, twice.
absl::Status FillGrid(Grid& grid) {
  FillSigmaGrid(grid);
  grid.stride = 2;
  std::vector<double> timesteps;
  std::vector<float> sigmas;
  for (size_t i = 0; i < grid.timesteps.size(); ++i) {
    timesteps.insert(timesteps.end(), i == 0 ? 1 : 2, grid.timesteps[i]);
    sigmas.insert(sigmas.end(), i == 0 ? 1 : 2, grid.sigmas[i]);
  }
  sigmas.push_back(grid.sigmas.back());
  grid.timesteps = std::move(timesteps);
  grid.sigmas = std::move(sigmas);
  return absl::OkStatus();
}

StepMatrix FirstEvaluation(Estimate derivative, double step) {
  StepMatrix matrix;
  matrix.at(kX, kX) = 1;
  matrix.Add(kX, step, derivative);
  matrix.at(kH1, kX) = 1;
  matrix.Add(kH2, 1, derivative);
  return matrix;
}

StepMatrix SecondEvaluation(Estimate derivative, double step) {
  StepMatrix matrix;
  matrix.at(kX, kH1) = 1;
  matrix.at(kX, kH2) = step / 2;
  matrix.Add(kX, step / 2, derivative);
  return matrix;
}

StepCoefficients Step(const Grid& grid, Point point) {
  const bool first = (point.index - point.begin) % 2 == 0;
  const int start = first ? point.index : point.index - 1;
  const float sigma = grid.sigmas[point.index];
  const double step = static_cast<double>(grid.sigmas[start + 1]) - grid.sigmas[start];
  const Estimate derivative = EstimateDerivative(grid.config.prediction_type, sigma);
  const StepMatrix matrix =
      first ? FirstEvaluation(derivative, step) : SecondEvaluation(derivative, step);
  return {.input_scale = InputScale(sigma),
          .matrix = matrix.ToFloat(),
          .predicted = EstimateOriginal(grid.config.prediction_type, sigma).ToFloat()};
}

}  // namespace

constinit const Scheduler kHeun = {.class_name = "HeunDiscreteScheduler",
                                   .fields = kFields,
                                   .set_defaults = SetBetasOfStableDiffusion,
                                   .takes_timesteps = true,
                                   .fill_grid = FillGrid,
                                   .step = Step,
                                   .start = StartFromSigma};

}  // namespace latentd::schedulers
