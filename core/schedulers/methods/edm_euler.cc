// Euler's method (core/schedulers/methods/euler.cc) for networks in the style of EDM
// (core/schedulers/formulas/edm.h): x' = x + (sigma' - sigma) (x - x0) / sigma.
#include "core/schedulers/formulas/edm.h"
#include "core/schedulers/formulas/step_matrix.h"
#include "core/schedulers/grids/edm_grid.h"
#include "core/schedulers/grids/sigma_grid.h"
#include "core/schedulers/methods/scheduler.h"

namespace latentd::schedulers {
namespace {

constexpr absl::string_view kFields[] = {"sigma_min", "sigma_max",      "sigma_data",
                                         "rho",       "sigma_schedule", "final_sigmas_type"};

// Unlike DPM-Solver++, it repeats its last sigma, which is not sigma_min if it is the only one.
absl::Status FillGrid(Grid& grid) {
  FillEdmGrid(grid);
  if (grid.config.final_sigmas_type == FinalSigmas::kSigmaMin) {
    grid.sigmas.back() = grid.sigmas[grid.sigmas.size() - 2];
  }
  return absl::OkStatus();
}

StepCoefficients Step(const Grid& grid, Point point) {
  const double sigma = grid.sigmas[point.index];
  const double step = grid.sigmas[point.index + 1] / sigma - 1;
  const Estimate original = EdmOriginal(grid.config, sigma);
  StepMatrix matrix;
  matrix.at(kX, kX) = 1 + step;
  matrix.Add(kX, -step, original);
  return {.input_scale = EdmInputScale(grid.config, sigma),
          .matrix = matrix.ToFloat(),
          .predicted = original.ToFloat()};
}

}  // namespace

constinit const Scheduler kEdmEuler = {.class_name = "EDMEulerScheduler",
                                       .fields = kFields,
                                       .spaces_timesteps = false,
                                       .has_own_grid = true,
                                       .find_mistake = FindEdmMistake,
                                       .fill_grid = FillGrid,
                                       .step = Step,
                                       .start = StartFromSigma};

}  // namespace latentd::schedulers
