// DPM-Solver++ (core/schedulers/formulas/dpm_solver.h) for networks in the style of EDM
// (core/schedulers/formulas/edm.h): latents are x0 + sigma * n.
#include "core/schedulers/formulas/dpm_solver.h"
#include "core/schedulers/formulas/edm.h"
#include "core/schedulers/formulas/step_matrix.h"
#include "core/schedulers/grids/edm_grid.h"
#include "core/schedulers/grids/sigma_grid.h"
#include "core/schedulers/methods/scheduler.h"

namespace latentd::schedulers {
namespace {

constexpr absl::string_view kFields[] = {
    "sigma_min",      "sigma_max",         "sigma_data",     "rho",
    "sigma_schedule", "solver_order",      "thresholding",   "algorithm_type",
    "solver_type",    "lower_order_final", "euler_at_final", "final_sigmas_type"};

bool IsSde(const SchedulerConfig& config) {
  return config.algorithm_type == AlgorithmType::kSdeDpmSolverPlusPlus;
}

std::optional<FieldViolation> FindMistake(const SchedulerConfig& config) {
  if (IsSde(config) && config.solver_order == 3) {
    return FieldViolation{"solver_order", "edm_dpmpp_2m_sde supports 1 and 2, as in diffusers"};
  }
  const auto mistake = FindDpmSolverMistake(config);
  return mistake ? mistake : FindEdmMistake(config);
}

absl::Status FillGrid(Grid& grid) {
  FillEdmGrid(grid);
  return absl::OkStatus();
}

double Signal(double) { return 1; }

StepCoefficients Step(const Grid& grid, Point point) {
  const SchedulerConfig& config = grid.config;
  const double sigma = grid.sigmas[point.index];
  const Estimate original = EdmOriginal(config, sigma);
  const DpmSolver solver = {
      .sde = IsSde(config), .heun = config.solver_type == SolverType::kHeun, .signal = Signal};
  return {
      .input_scale = EdmInputScale(config, sigma),
      .matrix =
          DpmSolverStep(grid, solver, point.index, DpmSolverOrder(grid, point), original).ToFloat(),
      .draws_noise = solver.sde,
      .predicted = original.ToFloat()};
}

}  // namespace

constinit const Scheduler kEdmDpmpp2m = {.class_name = "EDMDPMSolverMultistepScheduler",
                                         .fields = kFields,
                                         .spaces_timesteps = false,
                                         .has_own_grid = true,
                                         .find_mistake = FindMistake,
                                         .fill_grid = FillGrid,
                                         .step = Step,
                                         .start = StartFromSigma};

}  // namespace latentd::schedulers
