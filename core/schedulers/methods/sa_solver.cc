// SA-Solver (arXiv 2309.05019) in terms of what the network says x0 is: Adams and Bashforth's
// predictor and Adams and Moulton's corrector for an SDE with noise of strength tau, which is 1
// from timestep 200 to 800 and 0 elsewhere, as diffusers' default is. Latents are signal * x0 +
// noise * n, lambda = log(signal / noise). From a noise level to the next one, with h = lambda' -
// lambda, w = 1 + tau², z the noise drawn, m the estimates of x0 and l their lambdas,
//   x' = exp(-tau² h) (noise' / noise) x + Σ b_i m_i + noise' √(1 - exp(-2 tau² h)) z
//   b_i = w signal' ∫ exp(w (l - lambda')) Π_(j != i) (l - l_j) / (l_i - l_j) dl, lambda to lambda'
// The predictor's estimates are this one and those before it (kept in h1 to h3), predictor_order of
// them; the corrector, once the next estimate is known, takes corrector_order of them, that one
// first. diffusers adds to the first of exactly two w signal' (h² / 2 - (w h - 1 + exp(-w h)) / w²)
// / (l_0 - l_1), and takes it from the second.
//
// An evaluation corrects what the step before it predicted, then predicts. Predictor and corrector
// of a step share x and z, so the corrected x' is x' less the predictor's sum plus the corrector's.
// The last sigma is the least that the network was trained at, or one twice, never 0.
#include <algorithm>
#include <array>
#include <cmath>

#include "core/schedulers/formulas/step_matrix.h"
#include "core/schedulers/grids/multistep_grid.h"
#include "core/schedulers/grids/noise_schedule.h"
#include "core/schedulers/methods/scheduler.h"

namespace latentd::schedulers {
namespace {

constexpr int kMaxPredictorOrder = 3;
constexpr int kMaxNodes = 4;
using Numbers = std::array<double, kMaxNodes>;

// diffusers registers sigma_min and sigma_max of another scheduler's file and reads them.
constexpr absl::string_view kFields[] = {
    "use_karras_sigmas", "use_exponential_sigmas", "use_beta_sigmas", "sigma_min",
    "sigma_max",         "thresholding",           "algorithm_type",  "predictor_order",
    "corrector_order",   "lower_order_final",      "tau_func",        "lambda_min_clipped",
    "variance_type",     "use_flow_sigmas"};

void SetDefaults(SchedulerConfig& config) {
  config.final_sigmas_type = FinalSigmas::kSigmaMin;
  config.algorithm_type = AlgorithmType::kDataPrediction;
}

std::optional<FieldViolation> FindMistake(const SchedulerConfig& config) {
  if (config.algorithm_type != AlgorithmType::kDataPrediction) {
    return FieldViolation{"algorithm_type",
                          "must be data_prediction: sa_solver in terms of noise is not supported"};
  }
  if (config.predictor_order > kMaxPredictorOrder) {
    return FieldViolation{"predictor_order", "must be from 1 to 3: an image keeps no more history"};
  }
  return std::nullopt;
}

double TauAt(const Grid& grid, int index) {
  const double timestep = grid.timesteps[index];
  return 200 <= timestep && timestep <= 800 ? 1 : 0;
}

int HistoryAt(const Grid& grid, Point point) {
  const SchedulerConfig& config = grid.config;
  return std::min(point.index - point.begin,
                  std::max(config.predictor_order, config.corrector_order - 1));
}

// A step of the solver from a noise level to the next.
class SaStep {
 public:
  SaStep(const Grid& grid, Point point)
      : grid_(grid),
        index_(point.index),
        tau_(TauAt(grid, point.index)),
        weight_(1 + tau_ * tau_),
        h_(std::log(grid.sigmas[index_] / static_cast<double>(grid.sigmas[index_ + 1]))) {
    const int left = static_cast<int>(grid.timesteps.size()) - index_;
    const bool lowers = grid.config.lower_order_final;
    const int history = HistoryAt(grid, point);
    const int predictor = grid.config.predictor_order;
    const int corrector = grid.config.corrector_order;
    predictor_order_ = std::min(lowers ? std::min(predictor, left) : predictor, history + 1);
    corrector_order_ = std::min(lowers ? std::min(corrector, left + 1) : corrector, history + 2);
  }

  double of_latents() const {
    const double noise = grid_.sigmas[index_] * SignalAt(grid_.sigmas[index_]);
    return std::exp(-tau_ * tau_ * h_) * grid_.sigmas[index_ + 1] * signal_next() / noise;
  }
  double of_noise() const {
    return grid_.sigmas[index_ + 1] * signal_next() *
           std::sqrt(std::max(1 - std::exp(-2 * tau_ * tau_ * h_), 0.0));
  }

  int predictor_order() const { return predictor_order_; }
  int corrector_order() const { return corrector_order_; }
  // b above: of this estimate, the one before it, ...
  Numbers Predictor() const { return Weights(index_, predictor_order_); }
  // b above: of the next estimate, this one, ...
  Numbers Corrector() const { return Weights(index_ + 1, corrector_order_); }

 private:
  double signal_next() const { return SignalAt(grid_.sigmas[index_ + 1]); }

  // log(sigma') - log(sigma) of an estimate, which is its lambda less lambda'.
  double Node(int index) const {
    return std::log(grid_.sigmas[index_ + 1] / static_cast<double>(grid_.sigmas[index]));
  }

  // ∫ exp(w u) u^n du from -h to 0, for n = 0, 1, ...
  Numbers Moments() const {
    Numbers moments;
    const double end = std::exp(-weight_ * h_);
    moments[0] = -std::expm1(-weight_ * h_) / weight_;
    for (int n = 1; n < kMaxNodes; ++n) {
      moments[n] = -(std::pow(-h_, n) * end + n * moments[n - 1]) / weight_;
    }
    return moments;
  }

  Numbers Weights(int first, int count) const {
    const Numbers moments = Moments();
    Numbers weights{};
    for (int i = 0; i < count; ++i) {
      Numbers polynomial{1};
      for (int j = 0; j < count; ++j) {
        if (j == i) continue;
        const double apart = Node(first - i) - Node(first - j);
        for (int n = kMaxNodes - 1; n >= 0; --n) {
          const double lower = n > 0 ? polynomial[n - 1] : 0;
          polynomial[n] = (lower - Node(first - j) * polynomial[n]) / apart;
        }
      }
      for (int n = 0; n < count; ++n) weights[i] += polynomial[n] * moments[n];
      weights[i] *= weight_ * signal_next();
    }
    if (count == 2) AddThirdOrder(Node(first) - Node(first - 1), weights);
    return weights;
  }

  void AddThirdOrder(double apart, Numbers& weights) const {
    const double wh = weight_ * h_;
    const double excess = h_ * h_ / 2 - (wh + std::expm1(-wh)) / (weight_ * weight_);
    const double change = apart == 0 ? 0 : weight_ * signal_next() * excess / apart;
    weights[0] += change;
    weights[1] -= change;
  }

  const Grid& grid_;
  int index_;
  double tau_, weight_, h_;
  int predictor_order_ = 1, corrector_order_ = 1;
};

constexpr Column kHistory[] = {kH1, kH2, kH3};

// Adds `scale` times the change from what the step before this one predicted to what it is
// corrected to: its own estimates are those in h1 to h3, and `estimate` is the next one.
void AddCorrection(StepMatrix& matrix, double scale, const SaStep& step, Estimate estimate) {
  const Numbers predictor = step.Predictor();
  const Numbers corrector = step.Corrector();
  matrix.Add(kX, scale * corrector[0], estimate);
  for (int i = 1; i < step.corrector_order(); ++i) {
    matrix.at(kX, kHistory[i - 1]) += scale * corrector[i];
  }
  for (int i = 0; i < step.predictor_order(); ++i) {
    matrix.at(kX, kHistory[i]) -= scale * predictor[i];
  }
}

StepMatrix MatrixAt(const Grid& grid, Point point, Estimate estimate) {
  const SaStep step(grid, point);
  StepMatrix matrix;
  matrix.at(kX, kX) = step.of_latents();
  if (point.index > point.begin) {
    const SaStep before(grid, {.index = point.index - 1, .begin = point.begin});
    AddCorrection(matrix, step.of_latents(), before, estimate);
  }
  const Numbers predictor = step.Predictor();
  matrix.Add(kX, predictor[0], estimate);
  for (int i = 1; i < step.predictor_order(); ++i) {
    matrix.at(kX, kHistory[i - 1]) += predictor[i];
  }
  matrix.at(kX, kNoise) = step.of_noise();
  matrix.Add(kH1, 1, estimate);
  matrix.at(kH2, kH1) = 1;
  matrix.at(kH3, kH2) = 1;
  return matrix;
}

absl::Status FillGrid(Grid& grid) { return FillMultistepGrid(grid, SpreadRule::kUniPc); }

// As diffusers, whose images are noised for the timestep, which its sigma need not have where it is
// rounded. With trailing spacing the last may be -1, of which diffusers takes the last of all.
StartScales Start(const Grid& grid, int index) {
  if (grid.config.named_grid) return StartFromVpSigma(grid, index);
  const std::vector<float> alphas = AlphasCumprod(grid.config);
  const int timestep = static_cast<int>(grid.timesteps[index]);
  const double alpha = alphas[timestep < 0 ? alphas.size() - 1 : static_cast<size_t>(timestep)];
  return {std::sqrt(alpha), std::sqrt(1 - alpha)};
}

// Draws noise at every evaluation, as diffusers, though it is used where tau is 1 only.
StepCoefficients Step(const Grid& grid, Point point) {
  const double sigma = grid.sigmas[point.index];
  const double signal = SignalAt(sigma);
  const Estimate estimate = EstimateSignal(grid.config.prediction_type, signal, sigma * signal);
  return {.matrix = MatrixAt(grid, point, estimate).ToFloat(),
          .draws_noise = true,
          .predicted = estimate.ToFloat()};
}

}  // namespace

constinit const Scheduler kSaSolver = {.class_name = "SASolverScheduler",
                                       .fields = kFields,
                                       .set_defaults = SetDefaults,
                                       .find_mistake = FindMistake,
                                       .fill_grid = FillGrid,
                                       .step = Step,
                                       .start = Start};

}  // namespace latentd::schedulers
