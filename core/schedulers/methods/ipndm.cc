// Improved pseudo numerical method of the web UIs (sample_ipndm; arXiv 2204.13902, of fourth
// order): Adams and Bashforth's weights for noise levels that are evenly spaced, whatever these
// are. With d, d1, d2, d3 the derivatives by sigma at this step and the three before it (the latter
// kept in h1 to h3), and s = sigma' - sigma,
//   x' = x + s d            x' = x + s (3 d - d1) / 2        x' = x + s (23 d - 16 d1 + 5 d2) / 12
//   x' = x + s (55 d - 59 d1 + 37 d2 - 9 d3) / 24
// by the history that there is; a step to sigma' = 0 is Euler's. diffusers' IPNDMScheduler is the
// same method over noise levels of its own that no network of this kind was trained at, so the
// class is none of ours.
#include <algorithm>
#include <array>

#include "core/schedulers/formulas/derivative_history.h"
#include "core/schedulers/grids/sigma_grid.h"
#include "core/schedulers/methods/scheduler.h"

namespace latentd::schedulers {
namespace {

// Weights of d, d1, d2 and d3 by order.
constexpr std::array<double, kDerivatives> kWeights[kDerivatives] = {
    {1, 0, 0, 0},
    {3. / 2, -1. / 2, 0, 0},
    {23. / 12, -16. / 12, 5. / 12, 0},
    {55. / 24, -59. / 24, 37. / 24, -9. / 24}};

constexpr absl::string_view kFields[] = {"use_karras_sigmas", "use_exponential_sigmas",
                                         "use_beta_sigmas",   "sigma_min",
                                         "sigma_max",         "rescale_betas_zero_snr"};

absl::Status FillGrid(Grid& grid) {
  FillSigmaGrid(grid);
  return absl::OkStatus();
}

StepCoefficients Step(const Grid& grid, Point point) {
  const float sigma = grid.sigmas[point.index];
  const double next = grid.sigmas[point.index + 1];
  const int order = next == 0 ? 1 : std::min(kDerivatives, point.index - point.begin + 1);
  std::array<double, kDerivatives> weights = kWeights[order - 1];
  for (double& weight : weights) weight *= next - sigma;
  return AddDerivatives(grid.config.prediction_type, sigma, weights);
}

}  // namespace

constinit const Scheduler kIpndm = {.class_name = "",
                                    .fields = kFields,
                                    .fill_grid = FillGrid,
                                    .step = Step,
                                    .start = StartFromSigma};

}  // namespace latentd::schedulers
