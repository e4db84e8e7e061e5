// DPM-Solver++ (arXiv 2211.01095), multistep, of first and second order, and its SDE form. With
// latents signal * x0 + noise * n, sigma = noise / signal, r = exp(-h) = sigma' / sigma, h0 the
// same of the step before, m the network's estimate of x0 and m1 the one before it (kept in h1), D
// = (h / h0) (m - m1):
//   ODE  x' = (noise' / noise) x + signal' (1 - r) m  + signal' c D           c = (1 - r) / 2
//   (midpoint) SDE  x' = r (noise' / noise) x + signal' (1 - r²) m + signal' c D + noise' √(1 - r²)
//   noise,  c = (1 - r²) / 2
// Solver type heun has c = (r - 1) / h + 1, for the SDE c = (r² - 1) / 2h + 1. The first step, and
// as a rule the last, leave D out.
#include <algorithm>
#include <cmath>

#include "core/schedulers/noise_schedule.h"
#include "core/schedulers/scheduler.h"
#include "core/schedulers/sigmas.h"
#include "core/schedulers/step_matrix.h"
#include "core/schedulers/timesteps.h"

namespace latentd::schedulers {
namespace {

// So few steps are stabilised by lower_order_final.
constexpr size_t kFewSteps = 15;

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

// How many training timesteps there are from 0 up to where the logarithm of signal / noise falls
// below lambda_min_clipped.
int UsableTimesteps(const SchedulerConfig& config, absl::Span<const float> training) {
  int count = static_cast<int>(training.size());
  while (count > 0 && -std::log(training[count - 1]) < config.lambda_min_clipped) --count;
  return count;
}

// Unlike the other schedulers, this one spaces one timestep more than there are steps, and leaves
// out the last.
std::vector<double> SpacedTimesteps(const SchedulerConfig& config, int usable, int steps) {
  std::vector<double> timesteps;
  switch (config.timestep_spacing) {
    case TimestepSpacing::kTrailing:
      return Trailing(usable, static_cast<double>(config.num_train_timesteps) / steps);
    case TimestepSpacing::kLinspace:
      timesteps = Linspace(0, usable - 1, steps + 1);
      for (double& timestep : timesteps) timestep = std::nearbyint(timestep);
      break;
    case TimestepSpacing::kLeading: {
      const int stride = usable / (steps + 1);
      for (int i = 0; i <= steps; ++i) timesteps.push_back(i * stride + config.steps_offset);
      break;
    }
  }
  std::reverse(timesteps.begin(), timesteps.end());
  timesteps.pop_back();
  return timesteps;
}

std::vector<double> TimestepsOf(const SchedulerConfig& config, absl::Span<const double> sigmas,
                                absl::Span<const float> training) {
  const std::vector<float> logs = LogSigmas(training);
  const bool rounds = (config.use_karras_sigmas || config.use_lu_lambdas) &&
                      config.beta_schedule != BetaSchedule::kSquaredcosCapV2;
  std::vector<double> timesteps;
  for (double sigma : sigmas) {
    const double timestep = TimestepOfSigma(sigma, logs);
    timesteps.push_back(rounds ? std::nearbyint(timestep) : timestep);
  }
  return timesteps;
}

absl::Status FillGrid(Grid& grid) {
  const SchedulerConfig& config = grid.config;
  const int steps = grid.request.num_inference_steps;
  const std::vector<float> training = TrainingSigmas(config);
  const int usable = UsableTimesteps(config, training);
  if (usable == 0) return InvalidFields({{"lambda_min_clipped", "leaves no training timestep"}});
  std::vector<double> sigmas;
  if (SpreadsSigmas(config)) {
    sigmas = SpreadSigmas(config, training.back(), training.front(), steps);
    grid.timesteps = TimestepsOf(config, sigmas, training);
  } else {
    grid.timesteps = grid.request.timesteps.empty() ? SpacedTimesteps(config, usable, steps)
                                                    : grid.request.timesteps;
  }
  for (double& timestep : grid.timesteps) timestep = std::trunc(timestep);
  if (sigmas.empty()) sigmas = SigmasAt(training, grid.timesteps);
  grid.sigmas = WithFinal(sigmas, FinalSigma(config, training));
  return absl::OkStatus();
}

bool IsFirstOrder(const Grid& grid, Point point) {
  const SchedulerConfig& config = grid.config;
  const size_t steps = grid.timesteps.size();
  const bool last = point.index + 1 == static_cast<int>(steps);
  return config.solver_order == 1 || point.index == point.begin ||
         (last && (config.euler_at_final || (config.lower_order_final && steps < kFewSteps) ||
                   config.final_sigmas_type == FinalSigmas::kZero));
}

// c in the formulas above; `left` is r, for the SDE r², and `length` -log(left).
double SecondOrderWeight(SolverType type, double left, double length) {
  return type == SolverType::kMidpoint ? (1 - left) / 2 : (left - 1) / length + 1;
}

StepCoefficients Step(const Grid& grid, Point point) {
  const SchedulerConfig& config = grid.config;
  const bool sde = config.algorithm_type == AlgorithmType::kSdeDpmSolverPlusPlus;
  const double sigma = grid.sigmas[point.index];
  const double sigma_next = grid.sigmas[point.index + 1];
  const double signal = 1 / std::sqrt(sigma * sigma + 1);
  const double signal_next = 1 / std::sqrt(sigma_next * sigma_next + 1);
  const double ratio = sigma_next / sigma;
  const double left = sde ? ratio * ratio : ratio;

  const Estimate original = EstimateSignal(config.prediction_type, signal, sigma * signal);
  StepMatrix matrix;
  matrix.at(kX, kX) = left * signal_next / signal;
  matrix.Add(kX, signal_next * (1 - left), original);
  matrix.Add(kH1, 1, original);
  if (!IsFirstOrder(grid, point)) {
    const double h = -std::log(ratio);
    const double weight = signal_next *
                          SecondOrderWeight(config.solver_type, left, sde ? 2 * h : h) * h /
                          std::log(grid.sigmas[point.index - 1] / sigma);
    matrix.Add(kX, weight, original);
    matrix.at(kX, kH1) -= weight;
  }
  if (sde) matrix.at(kX, kNoise) = sigma_next * signal_next * std::sqrt(std::max(1 - left, 0.0));
  return {.matrix = matrix.ToFloat(), .draws_noise = sde, .predicted = original.ToFloat()};
}

// Latents are signal * image + noise * noise with signal² + noise² = 1.
StartScales Start(const Grid& grid, int index) {
  const double sigma = grid.sigmas[index];
  const double signal = 1 / std::sqrt(sigma * sigma + 1);
  return {signal, sigma * signal};
}

std::optional<FieldViolation> FindMistake(const SchedulerConfig& config) {
  if (config.solver_order <= 2) return std::nullopt;
  return FieldViolation{"solver_order", "dpmpp_2m supports 1 and 2"};
}

}  // namespace

constinit const Scheduler kDpmpp2m = {.class_name = "DPMSolverMultistepScheduler",
                                      .fields = kFields,
                                      .find_mistake = FindMistake,
                                      .takes_timesteps = true,
                                      .fill_grid = FillGrid,
                                      .step = Step,
                                      .start = Start};

}  // namespace latentd::schedulers
