// UniPC (arXiv 2302.04867) in terms of what the network says x0 is. Latents are signal * x0 + noise
// * n with sigma = noise / signal. From sigma to sigma', with h = log(sigma / sigma'), m the
// estimate at sigma, m1, m2, m3 those before it (kept in h1, h2, h3), and p the order,
//   r_i = log(sigma / sigma_i) / h, negative, for the p - 1 steps before, and r_p = 1
//   D_i = (m_i - m) / r_i    B = -h (bh1) or exp(-h) - 1 (bh2)
//   predictor  x' = (noise' / noise) x - signal' (exp(-h) - 1) m - signal' B Σ a_i D_i, i < p
//   corrector  the same with c_i in place of a_i, and c_p (m' - m), m' the estimate at x'
// where a solves Σ a_i r_i^(j-1) = b_j for j < p and c the same for j <= p, b_j being j! / B times
// the j-th of the functions g below; by definition a = 1/2 for p = 2, and c = 1/2 for p = 1.
//
// An evaluation corrects what the step before it predicted, then predicts. Predictor and corrector
// of a step share all but their sums, so that x' + signal' B (Σ (a_i - c_i) D_i - c_p (m' - m)) is
// the corrected x', and the x that both began with need not be kept.
#include <algorithm>
#include <array>
#include <cmath>
#include <utility>

#include "core/schedulers/formulas/step_matrix.h"
#include "core/schedulers/grids/multistep_grid.h"
#include "core/schedulers/methods/scheduler.h"

namespace latentd::schedulers {
namespace {

constexpr int kMaxOrder = 3;

constexpr absl::string_view kFields[] = {"use_karras_sigmas", "use_exponential_sigmas",
                                         "use_beta_sigmas",   "sigma_min",
                                         "sigma_max",         "final_sigmas_type",
                                         "thresholding",      "rescale_betas_zero_snr",
                                         "solver_type",       "solver_order",
                                         "lower_order_final", "predict_x0",
                                         "disable_corrector", "solver_p",
                                         "use_flow_sigmas",   "use_dynamic_shifting"};

using Numbers = std::array<double, kMaxOrder>;
// Rows of `size` equations, each with its right side behind them.
using Equations = std::array<std::array<double, kMaxOrder + 1>, kMaxOrder>;

// Gauss-Jordan. The equations are Vandermonde's in distinct numbers: no pivot is 0.
Numbers Solve(Equations rows, int size) {
  for (int pivot = 0; pivot < size; ++pivot) {
    for (int row = 0; row < size; ++row) {
      if (row == pivot) continue;
      const double factor = rows[row][pivot] / rows[pivot][pivot];
      for (int k = 0; k <= size; ++k) rows[row][k] -= factor * rows[pivot][k];
    }
  }
  Numbers solution{};
  for (int i = 0; i < size; ++i) solution[i] = rows[i][size] / rows[i][i];
  return solution;
}

// A step of the solver, from one noise level to the next.
class UniPcStep {
 public:
  UniPcStep(const Grid& grid, Point point) : order_(OrderAt(grid, point)) {
    const double sigma = grid.sigmas[point.index];
    const double sigma_next = grid.sigmas[point.index + 1];
    signal_next_ = SignalAt(sigma_next);
    of_latents_ = sigma_next * signal_next_ / (sigma * SignalAt(sigma));
    h_ = std::log(sigma / sigma_next);
    const bool bh1 = grid.config.solver_type == SolverType::kBh1;
    b_of_h_ = bh1 ? -h_ : std::expm1(-h_);
    for (int i = 1; i < order_; ++i) {
      ratios_[i - 1] = std::log(sigma / grid.sigmas[point.index - i]) / h_;
    }
    ratios_[order_ - 1] = 1;
  }

  int order() const { return order_; }
  double ratio(int i) const { return ratios_[i]; }
  double of_latents() const { return of_latents_; }
  double of_estimate() const { return -signal_next_ * std::expm1(-h_); }
  double of_sum() const { return -signal_next_ * b_of_h_; }

  // a above, of which there are order - 1.
  Numbers Predictor() const { return order_ == 2 ? Numbers{0.5} : Weights(order_ - 1); }
  Numbers Corrector() const { return order_ == 1 ? Numbers{0.5} : Weights(order_); }

 private:
  // At sigma' = 0 and at a last sigma twice, where diffusers gives NaN without lower_order_final,
  // and with bh1 at sigma' = 0, the sums are left out.
  static int OrderAt(const Grid& grid, Point point) {
    const float next = grid.sigmas[point.index + 1];
    if (next == 0 || next == grid.sigmas[point.index]) return 1;
    const int left = static_cast<int>(grid.timesteps.size()) - point.index;
    const int order = std::min(grid.config.solver_order, point.index - point.begin + 1);
    return grid.config.lower_order_final ? std::min(order, left) : order;
  }

  Numbers Weights(int count) const {
    Equations equations{};
    double g = std::expm1(-h_) / -h_ - 1;
    double factorial = 1;
    for (int j = 0; j < count; ++j) {
      for (int i = 0; i < count; ++i) equations[j][i] = std::pow(ratios_[i], j);
      equations[j][count] = g * factorial / b_of_h_;
      factorial *= j + 2;
      g = g / -h_ - 1 / factorial;
    }
    return Solve(equations, count);
  }

  int order_;
  double h_ = 0;
  double b_of_h_ = 0;
  double signal_next_ = 1;
  double of_latents_ = 1;
  Numbers ratios_{};
};

// Adds `weight` times the latents as the step before this one is corrected: its estimates are those
// in h1 to h3, and `estimate` is m'.
void AddCorrected(StepMatrix& matrix, double weight, const UniPcStep& step, Estimate estimate) {
  const Numbers predictor = step.Predictor();
  const Numbers corrector = step.Corrector();
  const int last = step.order() - 1;
  const double scale = weight * step.of_sum();
  matrix.at(kX, kX) += weight;
  matrix.Add(kX, scale * corrector[last], estimate);
  matrix.at(kX, kH1) -= scale * corrector[last];
  constexpr Column kOlder[] = {kH2, kH3};
  for (int i = 0; i < last; ++i) {
    const double change = scale * (corrector[i] - predictor[i]) / step.ratio(i);
    matrix.at(kX, kOlder[i]) += change;
    matrix.at(kX, kH1) -= change;
  }
}

bool Corrects(const Grid& grid, Point point) {
  const std::vector<int>& disabled = grid.config.disable_corrector;
  return point.index > point.begin &&
         std::find(disabled.begin(), disabled.end(), point.index - 1) == disabled.end();
}

StepMatrix MatrixAt(const Grid& grid, Point point, Estimate estimate) {
  const UniPcStep step(grid, point);
  StepMatrix matrix;
  if (Corrects(grid, point)) {
    const UniPcStep before(grid, {.index = point.index - 1, .begin = point.begin});
    AddCorrected(matrix, step.of_latents(), before, estimate);
  } else {
    matrix.at(kX, kX) = step.of_latents();
  }
  matrix.Add(kX, step.of_estimate(), estimate);
  const Numbers predictor = step.Predictor();
  constexpr Column kOlder[] = {kH1, kH2};
  for (int i = 0; i + 1 < step.order(); ++i) {
    const double weight = step.of_sum() * predictor[i] / step.ratio(i);
    matrix.at(kX, kOlder[i]) += weight;
    matrix.Add(kX, -weight, estimate);
  }
  matrix.Add(kH1, 1, estimate);
  matrix.at(kH2, kH1) = 1;
  matrix.at(kH3, kH2) = 1;
  return matrix;
}

absl::Status FillGrid(Grid& grid) { return FillMultistepGrid(grid, SpreadRule::kUniPc); }

StepCoefficients Step(const Grid& grid, Point point) {
  const double sigma = grid.sigmas[point.index];
  const double signal = SignalAt(sigma);
  const Estimate estimate = EstimateSignal(grid.config.prediction_type, signal, sigma * signal);
  return {.matrix = MatrixAt(grid, point, estimate).ToFloat(), .predicted = estimate.ToFloat()};
}

}  // namespace

constinit const Scheduler kUniPc = {.class_name = "UniPCMultistepScheduler",
                                    .fields = kFields,
                                    .fill_grid = FillGrid,
                                    .step = Step,
                                    .start = StartFromVpSigma};

}  // namespace latentd::schedulers
