// DEIS (arXiv 2204.13902) with polynomials in log(sigma): latents are signal * x0 + noise * n with
// sigma = noise / signal, and n, n1 and n2 what the network said the noise is at this step and the
// two before it (n1 and n2 are kept in h1 and h2):
//   x' / signal' = x / signal + Σ c_j n_j    c_j = ∫ Π_(i != j) (log s - log sigma_i) / (log
//   sigma_j - log sigma_i) ds from sigma to sigma'
// The last sigma is the least that the network was trained at, or one twice, never 0.
#include <algorithm>
#include <cmath>

#include "core/schedulers/formulas/step_matrix.h"
#include "core/schedulers/grids/multistep_grid.h"
#include "core/schedulers/methods/scheduler.h"

namespace latentd::schedulers {
namespace {

// Runs of so few steps are stabilised by lower_order_final.
constexpr int kFewSteps = 15;

// diffusers registers sigma_min and sigma_max of another scheduler's file and reads them.
constexpr absl::string_view kFields[] = {
    "use_karras_sigmas", "use_exponential_sigmas", "use_beta_sigmas", "sigma_min",
    "sigma_max",         "thresholding",           "algorithm_type",  "solver_type",
    "solver_order",      "lower_order_final",      "use_flow_sigmas", "use_dynamic_shifting"};

void SetDefaults(SchedulerConfig& config) { config.final_sigmas_type = FinalSigmas::kSigmaMin; }

std::optional<FieldViolation> FindMistake(const SchedulerConfig& config) {
  if (config.algorithm_type == AlgorithmType::kDpmSolverPlusPlus) return std::nullopt;
  return FieldViolation{"algorithm_type",
                        "must be dpmsolver++ or deis: deis has no SDE, as in diffusers"};
}

int OrderAt(const Grid& grid, Point point) {
  const int steps = static_cast<int>(grid.timesteps.size());
  const int order = std::min(grid.config.solver_order, point.index - point.begin + 1);
  const bool stabilises = grid.config.lower_order_final && steps < kFewSteps;
  return stabilises ? std::min(order, steps - point.index) : order;
}

// Antiderivatives at s of 1, of log(s / b), and of log(s / b) log(s / c).
double Constant(double s) { return s; }
double Linear(double s, double b) { return s * (std::log(s / b) - 1); }
double Square(double s, double b, double c) {
  const double to_b = std::log(s / b);
  const double to_c = std::log(s / c);
  return s * (to_b * to_c - to_b - to_c + 2);
}

// c_j above, with the other noise levels in `others`.
double Weight(double from, double to, double own, absl::Span<const double> others) {
  if (others.empty()) return Constant(to) - Constant(from);
  const double b = others[0];
  if (others.size() == 1) return (Linear(to, b) - Linear(from, b)) / std::log(own / b);
  const double c = others[1];
  return (Square(to, b, c) - Square(from, b, c)) / (std::log(own / b) * std::log(own / c));
}

absl::Status FillGrid(Grid& grid) { return FillMultistepGrid(grid, SpreadRule::kUniPc); }

StepCoefficients Step(const Grid& grid, Point point) {
  const PredictionType type = grid.config.prediction_type;
  const double sigma = grid.sigmas[point.index];
  const double sigma_next = grid.sigmas[point.index + 1];
  const double signal = SignalAt(sigma);
  const double signal_next = SignalAt(sigma_next);
  const Estimate noise = EstimateNoise(type, signal, sigma * signal);

  StepMatrix matrix;
  matrix.at(kX, kX) = signal_next / signal;
  constexpr Column kHistory[] = {kX, kH1, kH2};
  const int order = OrderAt(grid, point);
  for (int j = 0; j < order; ++j) {
    std::vector<double> others;
    for (int i = 0; i < order; ++i) {
      if (i != j) others.push_back(grid.sigmas[point.index - i]);
    }
    const double weight =
        signal_next * Weight(sigma, sigma_next, grid.sigmas[point.index - j], others);
    if (j == 0) {
      matrix.Add(kX, weight, noise);
    } else {
      matrix.at(kX, kHistory[j]) = weight;
    }
  }
  matrix.Add(kH1, 1, noise);
  matrix.at(kH2, kH1) = 1;
  return {.matrix = matrix.ToFloat(),
          .predicted = EstimateSignal(type, signal, sigma * signal).ToFloat()};
}

}  // namespace

constinit const Scheduler kDeis = {.class_name = "DEISMultistepScheduler",
                                   .fields = kFields,
                                   .set_defaults = SetDefaults,
                                   .find_mistake = FindMistake,
                                   .fill_grid = FillGrid,
                                   .step = Step,
                                   .start = StartFromVpSigma};

}  // namespace latentd::schedulers
