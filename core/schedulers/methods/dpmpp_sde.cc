// DPM-Solver++ in its stochastic form of k-diffusion (sample_dpmpp_sde with eta 1 and r 1/2), which
// diffusers calls DPMSolverSDE. A step from sigma to sigma' first takes an ancestral one to the
// middle s = √(sigma sigma'), then another all the way from where it began, with the estimate at
// the middle: with down = to² / sigma and up² = to² (sigma² - to²) / sigma² for either `to`, and m
// what the network says x0 is,
//   first   x1 = (down / sigma) x + (1 - down / sigma) m + up z1                        to = s
//   second  x' = (down / sigma) x + (1 - down / sigma) m1 + up (√a z1 + √b z2)          to = sigma'
// Both noises are of one Brownian path in sigma: the second one's is that of the whole step, in
// which the first part's share is a = (sigma - s) / (sigma - sigma'), b = 1 - a. Upstream takes it
// from torchsde's tree, so that its images depend on what is drawn beside them; here both draws are
// the image's own, and the law is the same. Between the two, h1 holds x and h2 holds z1.
#include <cmath>

#include "core/schedulers/formulas/shared_rules.h"
#include "core/schedulers/formulas/step_matrix.h"
#include "core/schedulers/grids/middle_grid.h"
#include "core/schedulers/methods/scheduler.h"

namespace latentd::schedulers {
namespace {

constexpr absl::string_view kFields[] = {"use_karras_sigmas", "use_exponential_sigmas",
                                         "use_beta_sigmas"};

absl::Status FillGrid(Grid& grid) {
  FillMiddleGrid(grid, MiddleOf);
  return absl::OkStatus();
}

// Adds the step's noise to a matrix of its second evaluation.
void AddPathNoise(StepMatrix& matrix, const MiddlePoint& at) {
  const double up = AncestralUp(at.start, at.target);
  const double first_share = (at.start - at.sigma) / (at.start - at.target);
  matrix.at(kX, kH2) = up * std::sqrt(first_share);
  matrix.at(kX, kNoise) = up * std::sqrt(1 - first_share);
}

StepCoefficients Step(const Grid& grid, Point point) {
  const MiddlePoint at(grid, point);
  const Estimate original = EstimateOriginal(grid.config.prediction_type, at.sigma);
  const double kept = AncestralDown(at.start, at.target) / at.start;
  StepMatrix matrix;
  matrix.at(kX, at.first ? kX : kH1) = kept;
  matrix.Add(kX, 1 - kept, original);
  if (at.first) {
    matrix.at(kX, kNoise) = AncestralUp(at.start, at.target);
    matrix.at(kH1, kX) = 1;
    matrix.at(kH2, kNoise) = 1;
  } else {
    AddPathNoise(matrix, at);
  }
  return {.input_scale = InputScale(at.sigma),
          .matrix = matrix.ToFloat(),
          .draws_noise = at.target > 0,
          .predicted = original.ToFloat()};
}

}  // namespace

constinit const Scheduler kDpmppSde = {.class_name = "DPMSolverSDEScheduler",
                                       .fields = kFields,
                                       .set_defaults = SetBetasOfStableDiffusion,
                                       .find_mistake = FindSample,
                                       .fill_grid = FillGrid,
                                       .step = Step,
                                       .start = StartFromMiddle};

}  // namespace latentd::schedulers
