#include "core/schedulers/formulas/dpm_solver.h"

#include <algorithm>
#include <cmath>

#include "core/schedulers/grids/multistep_grid.h"

namespace latentd::schedulers {
namespace {

// Runs of so few steps are stabilised by lower_order_final.
constexpr int kFewSteps = 15;

// Adds `weight` times m - m1.
void AddDifference(StepMatrix& matrix, double weight, Estimate original) {
  matrix.Add(kX, weight, original);
  matrix.at(kX, kH1) -= weight;
}

}  // namespace

std::optional<FieldViolation> FindDpmSolverMistake(const SchedulerConfig& config) {
  if (config.algorithm_type != AlgorithmType::kDataPrediction) return std::nullopt;
  return FieldViolation{"algorithm_type", "must be dpmsolver++ or sde-dpmsolver++"};
}

int DpmSolverOrder(const Grid& grid, Point point) {
  const SchedulerConfig& config = grid.config;
  const int steps = static_cast<int>(grid.timesteps.size());
  const int left = steps - point.index;
  const bool stabilises = config.lower_order_final && steps < kFewSteps;
  const bool last_is_first_order =
      config.euler_at_final || stabilises || config.final_sigmas_type == FinalSigmas::kZero;
  if (left == 1 && last_is_first_order) return 1;
  const int order = std::min(config.solver_order, point.index - point.begin + 1);
  return left == 2 && stabilises ? std::min(order, 2) : order;
}

StepCoefficients DpmSolverCoefficients(const Grid& grid, DpmSolver solver, int index, int order) {
  const double sigma = grid.sigmas[index];
  const double signal = SignalAt(sigma);
  const Estimate original = EstimateSignal(grid.config.prediction_type, signal, sigma * signal);
  solver.signal = SignalAt;
  return {.matrix = DpmSolverStep(grid, solver, index, order, original).ToFloat(),
          .draws_noise = solver.sde,
          .predicted = original.ToFloat()};
}

StepMatrix DpmSolverStep(const Grid& grid, const DpmSolver& solver, int index, int order,
                         Estimate original) {
  const double sigma = grid.sigmas[index];
  const double sigma_next = grid.sigmas[index + 1];
  const double signal_next = solver.signal(sigma_next);
  const double ratio = sigma_next / sigma;
  const double left = solver.sde ? ratio * ratio : ratio;

  StepMatrix matrix;
  matrix.at(kX, kX) = left * signal_next / solver.signal(sigma);
  matrix.Add(kX, signal_next * (1 - left), original);
  if (solver.sde) {
    matrix.at(kX, kNoise) = sigma_next * signal_next * std::sqrt(std::max(1 - left, 0.0));
  }
  matrix.Add(kH1, 1, original);
  matrix.at(kH2, kH1) = 1;
  if (order == 1 || ratio == 1) return matrix;  // a last sigma twice is no step

  const double h = -std::log(ratio);
  const double length = solver.sde ? 2 * h : h;
  const double before = std::log(grid.sigmas[index - 1] / sigma);
  const double linear = (left - 1) / length + 1;
  if (order == 2) {
    const double weight = solver.heun ? linear : (1 - left) / 2;
    AddDifference(matrix, signal_next * weight * h / before, original);
    return matrix;
  }
  const double long_before = std::log(grid.sigmas[index - 2] / grid.sigmas[index - 1]);
  const double half = solver.flips_last_half ? -0.5 : 0.5;
  const double square = half - (left - 1 + length) / (length * length);
  const double of_change = (linear * before + square * h) / (before + long_before);
  AddDifference(matrix, signal_next * (linear + of_change) * h / before, original);
  const double of_older = signal_next * of_change * h / long_before;
  matrix.at(kX, kH1) -= of_older;
  matrix.at(kX, kH2) += of_older;
  return matrix;
}

}  // namespace latentd::schedulers
