// Linear multistep method of Adams and Bashforth in terms of sigma, of fourth order, as in
// k-diffusion: with d, d1, d2, d3 the derivatives by sigma at this step and the three before it
// (the latter kept in h1 to h3),
//   x' = x + Σ c_j d_j    c_j = ∫ Π_(i != j) (s - sigma_i) / (sigma_j - sigma_i) ds, from sigma to
//   sigma'
// Order is that of the history that there is. diffusers takes it from the place in the whole
// schedule, so that a run that begins in its middle has coefficients for derivatives that it lacks,
// and draws noise (huggingface/diffusers#5630).
#include <algorithm>
#include <array>
#include <cmath>

#include "core/schedulers/formulas/derivative_history.h"
#include "core/schedulers/grids/sigma_grid.h"
#include "core/schedulers/methods/scheduler.h"

namespace latentd::schedulers {
namespace {

constexpr absl::string_view kFields[] = {"use_karras_sigmas", "use_exponential_sigmas",
                                         "use_beta_sigmas"};

absl::Status FillGrid(Grid& grid) {
  FillSigmaGrid(grid);
  return absl::OkStatus();
}

// Lagrange's polynomial at s that is 1 at the j-th noise level back from `index` and 0 at the
// others of the latest `order`.
double Lagrange(const Grid& grid, int index, int order, int j, double s) {
  const double own = grid.sigmas[index - j];
  double product = 1;
  for (int i = 0; i < order; ++i) {
    const double other = grid.sigmas[index - i];
    if (i != j) product *= (s - other) / (own - other);
  }
  return product;
}

// Gauss' rule with two points, which is exact for cubic polynomials.
double Weight(const Grid& grid, int index, int order, int j) {
  const double middle = (grid.sigmas[index] + static_cast<double>(grid.sigmas[index + 1])) / 2;
  const double half = (grid.sigmas[index + 1] - static_cast<double>(grid.sigmas[index])) / 2;
  const double offset = half / std::sqrt(3.0);
  return half * (Lagrange(grid, index, order, j, middle - offset) +
                 Lagrange(grid, index, order, j, middle + offset));
}

StepCoefficients Step(const Grid& grid, Point point) {
  const int order = std::min(kDerivatives, point.index - point.begin + 1);
  std::array<double, kDerivatives> weights = {};
  for (int j = 0; j < order; ++j) weights[j] = Weight(grid, point.index, order, j);
  return AddDerivatives(grid.config.prediction_type, grid.sigmas[point.index], weights);
}

}  // namespace

constinit const Scheduler kLms = {.class_name = "LMSDiscreteScheduler",
                                  .fields = kFields,
                                  .fill_grid = FillGrid,
                                  .step = Step,
                                  .start = StartFromSigma};

}  // namespace latentd::schedulers
