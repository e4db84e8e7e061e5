// diffusers' DPM-Solver++, multistep, and its SDE form (core/schedulers/formulas/dpm_solver.h),
// over latents with signal² + noise² = 1.
#include "core/schedulers/formulas/dpm_solver.h"
#include "core/schedulers/grids/multistep_grid.h"
#include "core/schedulers/methods/scheduler.h"

namespace latentd::schedulers {
namespace {

// diffusers registers sigma_min and sigma_max of another scheduler's file and reads them.
constexpr absl::string_view kFields[] = {"use_karras_sigmas",  "use_exponential_sigmas",
                                         "use_beta_sigmas",    "use_lu_lambdas",
                                         "sigma_min",          "sigma_max",
                                         "final_sigmas_type",  "rescale_betas_zero_snr",
                                         "thresholding",       "algorithm_type",
                                         "solver_type",        "solver_order",
                                         "lower_order_final",  "euler_at_final",
                                         "lambda_min_clipped", "use_flow_sigmas",
                                         "variance_type",      "use_dynamic_shifting"};

absl::Status FillGrid(Grid& grid) { return FillMultistepGrid(grid, SpreadRule::kDpmSolver); }

StepCoefficients Step(const Grid& grid, Point point) {
  const bool sde = grid.config.algorithm_type == AlgorithmType::kSdeDpmSolverPlusPlus;
  const DpmSolver solver = {
      .sde = sde, .heun = grid.config.solver_type == SolverType::kHeun, .flips_last_half = sde};
  return DpmSolverCoefficients(grid, solver, point.index, DpmSolverOrder(grid, point));
}

}  // namespace

constinit const Scheduler kDpmpp2m = {.class_name = "DPMSolverMultistepScheduler",
                                      .fields = kFields,
                                      .find_mistake = FindDpmSolverMistake,
                                      .takes_timesteps = true,
                                      .fill_grid = FillGrid,
                                      .step = Step,
                                      .start = StartFromVpSigma};

}  // namespace latentd::schedulers
