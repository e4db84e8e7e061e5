// k-diffusion's sample_dpmpp_3m_sde, which the web UIs call DPM++ 3M SDE: the SDE of third order
// (core/schedulers/formulas/dpm_solver.h) with the right last term, where diffusers' has the wrong
// sign; its second step is heun's, and orders never fall before sigma' = 0. diffusers has no such
// class; its grid is that of DPM-Solver++.
#include <algorithm>

#include "core/schedulers/formulas/dpm_solver.h"
#include "core/schedulers/grids/multistep_grid.h"
#include "core/schedulers/methods/scheduler.h"

namespace latentd::schedulers {
namespace {

constexpr absl::string_view kFields[] = {"use_karras_sigmas",   "use_exponential_sigmas",
                                         "use_beta_sigmas",     "use_lu_lambdas",
                                         "sigma_min",           "sigma_max",
                                         "final_sigmas_type",   "rescale_betas_zero_snr",
                                         "thresholding",        "lambda_min_clipped",
                                         "use_flow_sigmas",     "variance_type",
                                         "use_dynamic_shifting"};

absl::Status FillGrid(Grid& grid) { return FillMultistepGrid(grid, SpreadRule::kDpmSolver); }

StepCoefficients Step(const Grid& grid, Point point) {
  const bool ends = grid.sigmas[point.index + 1] == 0;
  const int order = ends ? 1 : std::min(3, point.index - point.begin + 1);
  return DpmSolverCoefficients(grid, {.sde = true, .heun = true}, point.index, order);
}

}  // namespace

constinit const Scheduler kDpmpp3mSde = {.class_name = "",
                                         .fields = kFields,
                                         .takes_timesteps = true,
                                         .fill_grid = FillGrid,
                                         .step = Step,
                                         .start = StartFromVpSigma};

}  // namespace latentd::schedulers
