// The updates of DPM-Solver++ (arXiv 2211.01095), multistep, of first to third order, and of its
// SDE form. Latents are signal * x0 + noise * n with sigma = noise / signal. With h = log(sigma /
// sigma'), L = h for the ODE and 2h for the SDE, r = exp(-L), m, m1 and m2 the network's estimates
// of x0 at this step and the two before it (kept in h1 and h2), a and b the lengths of those two,
// and
//   D = (h / a) (m - m1)    E = (h / b) (m1 - m2)    q = h / (a + b)
//   order 1  x' = r (signal' / signal) x + signal' (1 - r) m
//   order 2  ... + signal' (1 - r) / 2 D (midpoint), or signal' ((r - 1) / L + 1) D (heun)
//   order 3  ... + signal' ((r - 1) / L + 1) (D + a / (a + b) (D - E))
//                - signal' ((r - 1 + L) / L² - 1/2) q (D - E)
// and the SDE adds noise' √(1 - r) of noise. Private to core/schedulers.
#pragma once

#include <optional>

#include "core/base/errors/error_details.h"
#include "core/schedulers/formulas/step_matrix.h"
#include "core/schedulers/grids/grid.h"

namespace latentd::schedulers {

struct DpmSolver {
  bool sde = false;
  bool heun = false;  // for second order
  // The last term above with + 1/2 in place of - 1/2, which diffusers' SDE of third order has.
  bool flips_last_half = false;
  double (*signal)(double sigma) = nullptr;  // the latents' at a noise level
};

// An algorithm_type of other solvers.
std::optional<FieldViolation> FindDpmSolverMistake(const SchedulerConfig& config);

// The order that diffusers' classes take at a point: less where there is no history yet, and as a
// rule at the last steps.
int DpmSolverOrder(const Grid& grid, Point point);

// A row of the table where latents have signal² + noise² = 1; `solver.signal` has no effect.
StepCoefficients DpmSolverCoefficients(const Grid& grid, DpmSolver solver, int index, int order);

// The same for latents with another signal. `original` is what the output says x0 is, in terms of
// the latents as they are.
StepMatrix DpmSolverStep(const Grid& grid, const DpmSolver& solver, int index, int order,
                         Estimate original);

}  // namespace latentd::schedulers
