// diffusers' DPM-Solver++, multistep, and its SDE form (core/schedulers/dpm_solver.h), over latents
// with signal² + noise² = 1.
#include "core/schedulers/dpm_solver.h"
#include "core/schedulers/multistep_grid.h"
#include "core/schedulers/scheduler.h"
#include "core/schedulers/step_matrix.h"

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
  const SchedulerConfig& config = grid.config;
  const double sigma = grid.sigmas[point.index];
  const double signal = SignalAt(sigma);
  const Estimate original = EstimateSignal(config.prediction_type, signal, sigma * signal);
  const bool sde = config.algorithm_type == AlgorithmType::kSdeDpmSolverPlusPlus;
  const DpmSolver solver = {.sde = sde,
                            .heun = config.solver_type == SolverType::kHeun,
                            .flips_last_half = sde,
                            .signal = SignalAt};
  return {
      .matrix =
          DpmSolverStep(grid, solver, point.index, DpmSolverOrder(grid, point), original).ToFloat(),
      .draws_noise = sde,
      .predicted = original.ToFloat()};
}

}  // namespace

constinit const Scheduler kDpmpp2m = {.class_name = "DPMSolverMultistepScheduler",
                                      .fields = kFields,
                                      .takes_timesteps = true,
                                      .fill_grid = FillGrid,
                                      .step = Step,
                                      .start = StartFromVpSigma};

}  // namespace latentd::schedulers
