// k-diffusion's sample_dpmpp_2s_ancestral, which the web UIs call DPM++ 2S a: a step of
// DPM-Solver++ of second order down to a lower noise level than the next one, and the noise that
// leads up again. With down = sigma'² / sigma, middle = √(sigma down) = sigma', and m what the
// network says x0 is,
//   x1 = (middle / sigma) x + (1 - middle / sigma) m
//   x' = (down / sigma) x + (1 - down / sigma) m1 + up noise
// Two evaluations a step; one for the last, which ends at sigma = 0. Between the two, h1 holds x.
// diffusers has no such class; its grid is Euler's.
#include "core/schedulers/formulas/step_matrix.h"
#include "core/schedulers/grids/middle_grid.h"
#include "core/schedulers/grids/sigma_grid.h"
#include "core/schedulers/methods/scheduler.h"

namespace latentd::schedulers {
namespace {

constexpr absl::string_view kFields[] = {"use_karras_sigmas", "use_exponential_sigmas",
                                         "use_beta_sigmas",   "sigma_min",
                                         "sigma_max",         "rescale_betas_zero_snr"};

absl::Status FillGrid(Grid& grid) {
  FillMiddleGrid(grid, AncestralMiddleOf);
  return absl::OkStatus();
}

StepCoefficients Step(const Grid& grid, Point point) {
  const MiddlePoint at(grid, point);
  const Estimate original = EstimateOriginal(grid.config.prediction_type, at.sigma);
  const double down = at.first ? at.target : AncestralDown(at.start, at.target);
  StepMatrix matrix;
  matrix.at(kX, at.first ? kX : kH1) = down / at.start;
  matrix.Add(kX, 1 - down / at.start, original);
  matrix.at(kH1, at.first ? kX : kH1) = 1;
  if (!at.first) matrix.at(kX, kNoise) = AncestralUp(at.start, at.target);
  return {.input_scale = InputScale(at.sigma),
          .matrix = matrix.ToFloat(),
          .draws_noise = !at.first,
          .predicted = original.ToFloat()};
}

}  // namespace

constinit const Scheduler kDpmpp2sAncestral = {.class_name = "",
                                               .fields = kFields,
                                               .fill_grid = FillGrid,
                                               .step = Step,
                                               .start = StartFromSigma};

}  // namespace latentd::schedulers
