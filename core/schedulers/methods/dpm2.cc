// DPM-Solver-2 in terms of sigma, as in k-diffusion (dpm_2), and its ancestral form: a step of
// Euler's to a noise level between, then again from where it began, with the derivative there:
//   d = dx/dsigma at x, x1 = x + (middle - sigma) d    and    x' = x + (down - sigma) d1 + up
//   noise, d1 at x1
// Without noise, middle = √(sigma sigma'), down = sigma' and up = 0. The ancestral form has up² =
// sigma'² (sigma² - sigma'²) / sigma² and down² = sigma'² - up², so that down = sigma'² / sigma and
// middle = √(sigma down) = sigma'. Two evaluations a step; one for the last, which ends at sigma =
// 0. Between the two, h1 holds x.
#include <cmath>

#include "core/schedulers/formulas/shared_rules.h"
#include "core/schedulers/formulas/step_matrix.h"
#include "core/schedulers/grids/middle_grid.h"
#include "core/schedulers/methods/scheduler.h"

namespace latentd::schedulers {
namespace {

// diffusers registers sigma_min and sigma_max of another scheduler's file and reads them.
constexpr absl::string_view kFields[] = {"use_karras_sigmas", "use_exponential_sigmas",
                                         "use_beta_sigmas", "sigma_min", "sigma_max"};

// diffusers rounds the timesteps of its own noise levels with Karras' sigmas, not those between.
absl::Status Fill(Grid& grid, double (*middle)(double sigma, double sigma_next)) {
  FillMiddleGrid(grid, middle);
  for (size_t i = 0; grid.config.use_karras_sigmas && i < grid.timesteps.size(); i += 2) {
    grid.timesteps[i] = std::nearbyint(grid.timesteps[i]);
  }
  return absl::OkStatus();
}

absl::Status FillGrid(Grid& grid) { return Fill(grid, MiddleOf); }
absl::Status FillAncestralGrid(Grid& grid) { return Fill(grid, AncestralMiddleOf); }

StepCoefficients StepWith(const Grid& grid, Point point, bool ancestral) {
  const MiddlePoint at(grid, point);
  const PredictionType type = grid.config.prediction_type;
  const bool adds_noise = ancestral && !at.first;
  const double down = adds_noise ? AncestralDown(at.start, at.target) : at.target;
  StepMatrix matrix;
  matrix.at(kX, at.first ? kX : kH1) = 1;
  matrix.Add(kX, down - at.start, EstimateDerivative(type, at.sigma));
  matrix.at(kH1, at.first ? kX : kH1) = 1;
  if (adds_noise) matrix.at(kX, kNoise) = AncestralUp(at.start, at.target);
  return {.input_scale = InputScale(at.sigma),
          .matrix = matrix.ToFloat(),
          .draws_noise = adds_noise,
          .predicted = EstimateOriginal(type, at.sigma).ToFloat()};
}

StepCoefficients Step(const Grid& grid, Point point) { return StepWith(grid, point, false); }
StepCoefficients AncestralStep(const Grid& grid, Point point) {
  return StepWith(grid, point, true);
}

}  // namespace

constinit const Scheduler kDpm2 = {.class_name = "KDPM2DiscreteScheduler",
                                   .fields = kFields,
                                   .set_defaults = SetBetasOfStableDiffusion,
                                   .find_mistake = FindSample,
                                   .fill_grid = FillGrid,
                                   .step = Step,
                                   .start = StartFromMiddle};

constinit const Scheduler kDpm2Ancestral = {.class_name = "KDPM2AncestralDiscreteScheduler",
                                            .fields = kFields,
                                            .set_defaults = SetBetasOfStableDiffusion,
                                            .find_mistake = FindSample,
                                            .fill_grid = FillAncestralGrid,
                                            .step = AncestralStep,
                                            .start = StartFromMiddle};

}  // namespace latentd::schedulers
