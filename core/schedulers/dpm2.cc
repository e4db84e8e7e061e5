// DPM-Solver-2 in terms of sigma, as in k-diffusion (dpm_2), and its ancestral form: a step of
// Euler's to a noise level between, then again from where it began, with the derivative there:
//   d = dx/dsigma at x, x1 = x + (middle - sigma) d    and    x' = x + (down - sigma) d1 + up
//   noise, d1 at x1
// Without noise, middle = √(sigma sigma'), down = sigma' and up = 0. The ancestral form has up² =
// sigma'² (sigma² - sigma'²) / sigma² and down² = sigma'² - up², so that down = sigma'² / sigma and
// middle = √(sigma down) = sigma'. Two evaluations a step; one for the last, which ends at sigma =
// 0. Between the two, h1 holds x.
#include <algorithm>
#include <cmath>

#include "core/schedulers/noise_schedule.h"
#include "core/schedulers/scheduler.h"
#include "core/schedulers/sigma_grid.h"
#include "core/schedulers/sigmas.h"
#include "core/schedulers/step_matrix.h"

namespace latentd::schedulers {
namespace {

// diffusers registers sigma_min and sigma_max of another scheduler's file and reads them.
constexpr absl::string_view kFields[] = {"use_karras_sigmas", "use_exponential_sigmas",
                                         "use_beta_sigmas", "sigma_min", "sigma_max"};

void SetDefaults(SchedulerConfig& config) {
  config.beta_start = 0.00085;
  config.beta_end = 0.012;
}

std::optional<FieldViolation> FindMistake(const SchedulerConfig& config) {
  if (config.prediction_type != PredictionType::kSample) return std::nullopt;
  return FieldViolation{"prediction_type",
                        "dpm2 supports epsilon and v_prediction, not sample, as in diffusers"};
}

double MiddleOf(double sigma, double sigma_next) { return std::sqrt(sigma * sigma_next); }
double AncestralMiddleOf(double, double sigma_next) { return sigma_next; }

// Between each two noise levels but the last two, the one in the middle.
absl::Status Fill(Grid& grid, double (*middle)(double sigma, double sigma_next)) {
  FillSigmaGrid(grid);
  grid.stride = 2;
  const std::vector<float> logs = LogSigmas(TrainingSigmas(grid.config));
  std::vector<double> timesteps;
  std::vector<float> sigmas;
  for (size_t i = 0; i < grid.timesteps.size(); ++i) {
    if (i > 0) {
      sigmas.push_back(static_cast<float>(middle(grid.sigmas[i - 1], grid.sigmas[i])));
      timesteps.push_back(TimestepOfSigma(sigmas.back(), logs));
    }
    const bool rounds = grid.config.use_karras_sigmas;
    timesteps.push_back(rounds ? std::nearbyint(grid.timesteps[i]) : grid.timesteps[i]);
    sigmas.push_back(grid.sigmas[i]);
  }
  sigmas.push_back(grid.sigmas.back());
  grid.timesteps = std::move(timesteps);
  grid.sigmas = std::move(sigmas);
  return absl::OkStatus();
}

absl::Status FillGrid(Grid& grid) { return Fill(grid, MiddleOf); }
absl::Status FillAncestralGrid(Grid& grid) { return Fill(grid, AncestralMiddleOf); }

StepCoefficients StepWith(const Grid& grid, Point point, bool ancestral) {
  const bool first = (point.index - point.begin) % 2 == 0;
  const double start = grid.sigmas[first ? point.index : point.index - 1];
  const float sigma = grid.sigmas[point.index];
  const double next = grid.sigmas[point.index + 1];
  const Estimate derivative = EstimateDerivative(grid.config.prediction_type, sigma);
  const bool adds_noise = ancestral && !first;
  StepMatrix matrix;
  matrix.at(kX, first ? kX : kH1) = 1;
  matrix.Add(kX, (adds_noise ? next * next / start : next) - start, derivative);
  matrix.at(kH1, first ? kX : kH1) = 1;
  if (adds_noise) {
    const double ratio = next / start;
    matrix.at(kX, kNoise) = next * std::sqrt(std::max(1 - ratio * ratio, 0.0));
  }
  return {.input_scale = InputScale(sigma),
          .matrix = matrix.ToFloat(),
          .draws_noise = adds_noise,
          .predicted = EstimateOriginal(grid.config.prediction_type, sigma).ToFloat()};
}

StepCoefficients Step(const Grid& grid, Point point) { return StepWith(grid, point, false); }
StepCoefficients AncestralStep(const Grid& grid, Point point) {
  return StepWith(grid, point, true);
}

}  // namespace

constinit const Scheduler kDpm2 = {.class_name = "KDPM2DiscreteScheduler",
                                   .fields = kFields,
                                   .set_defaults = SetDefaults,
                                   .find_mistake = FindMistake,
                                   .fill_grid = FillGrid,
                                   .step = Step,
                                   .start = StartFromSigma};

constinit const Scheduler kDpm2Ancestral = {.class_name = "KDPM2AncestralDiscreteScheduler",
                                            .fields = kFields,
                                            .set_defaults = SetDefaults,
                                            .find_mistake = FindMistake,
                                            .fill_grid = FillAncestralGrid,
                                            .step = AncestralStep,
                                            .start = StartFromSigma};

}  // namespace latentd::schedulers
