#include "core/schedulers/grids/sigmas.h"

#include <algorithm>
#include <cmath>

#include "core/schedulers/grids/beta_distribution.h"
#include "core/schedulers/grids/named_grid.h"
#include "core/schedulers/grids/noise_schedule.h"
#include "core/schedulers/grids/timesteps.h"

namespace latentd::schedulers {
namespace {

constexpr double kBetaShape = 0.6;

double Interpolated(absl::Span<const float> values, double timestep) {
  const double last = static_cast<double>(values.size() - 1);
  if (timestep <= 0) return values.front();
  if (timestep >= last) return values.back();
  const size_t below = static_cast<size_t>(timestep);
  const double low = values[below];
  const double slope = values[below + 1] - low;
  return slope * (timestep - static_cast<double>(below)) + low;
}

template <typename T>
double TimestepOf(T sigma, absl::Span<const float> log_sigmas) {
  const T log_sigma = std::log(std::max(sigma, static_cast<T>(1e-10)));
  size_t below = 0;
  for (size_t i = 0; i < log_sigmas.size(); ++i) {
    if (log_sigma - log_sigmas[i] >= 0) below = i;
  }
  below = std::min(below, log_sigmas.size() - 2);
  const T low = log_sigmas[below];
  const T high = log_sigmas[below + 1];
  const T weight = std::clamp((low - log_sigma) / (low - high), T{0}, T{1});
  return (1 - weight) * static_cast<double>(below) + weight * static_cast<double>(below + 1);
}

}  // namespace

std::vector<double> SigmasAt(absl::Span<const float> training_sigmas,
                             absl::Span<const double> timesteps) {
  std::vector<double> sigmas;
  sigmas.reserve(timesteps.size());
  for (double timestep : timesteps) sigmas.push_back(Interpolated(training_sigmas, timestep));
  return sigmas;
}

std::vector<double> KarrasSigmas(double max, double min, int count, double rho) {
  const double from = std::pow(max, 1 / rho);
  const double to = std::pow(min, 1 / rho);
  std::vector<double> sigmas = Linspace(0, 1, count);
  for (double& value : sigmas) value = std::pow(from + value * (to - from), rho);
  return sigmas;
}

std::vector<double> ExponentialSigmas(double max, double min, int count) {
  std::vector<double> sigmas = Linspace(std::log(max), std::log(min), count);
  for (double& value : sigmas) value = std::exp(value);
  return sigmas;
}

std::vector<double> BetaSigmas(double max, double min, int count) {
  std::vector<double> sigmas = Linspace(0, 1, count);
  for (double& value : sigmas) {
    value = min + BetaQuantile(1 - value, kBetaShape, kBetaShape) * (max - min);
  }
  return sigmas;
}

bool SpreadsSigmas(const SchedulerConfig& config) {
  return config.use_karras_sigmas || config.use_exponential_sigmas || config.use_beta_sigmas ||
         config.use_lu_lambdas || config.named_grid;
}

std::vector<double> SpreadSigmas(const SchedulerConfig& config, absl::Span<const float> training,
                                 double first, double last, int count) {
  if (config.named_grid) return NamedSigmas(config, training, count);
  if (config.use_lu_lambdas) return ExponentialSigmas(first, last, count);
  const double max = config.sigma_max.value_or(first);
  const double min = config.sigma_min.value_or(last);
  if (config.use_karras_sigmas) return KarrasSigmas(max, min, count, kKarrasRho);
  if (config.use_exponential_sigmas) return ExponentialSigmas(max, min, count);
  return BetaSigmas(max, min, count);
}

std::vector<double> SpreadTimesteps(const SchedulerConfig& config, int count) {
  const std::vector<float> training = TrainingSigmas(config);
  const std::vector<float> logs = LogSigmas(training);
  std::vector<double> values =
      SpreadSigmas(config, training, training.back(), training.front(), count);
  for (double& value : values) value = TimestepOfSigma(value, logs);
  return values;
}

std::vector<float> LogSigmas(absl::Span<const float> training_sigmas) {
  std::vector<float> logs(training_sigmas.begin(), training_sigmas.end());
  for (float& value : logs) value = std::log(value);
  return logs;
}

double SigmaOfTimestep(double timestep, absl::Span<const float> log_sigmas) {
  return std::exp(Interpolated(log_sigmas, timestep));
}

double TimestepOfSigma(double sigma, absl::Span<const float> log_sigmas) {
  return TimestepOf(sigma, log_sigmas);
}

double TimestepOfSigma(float sigma, absl::Span<const float> log_sigmas) {
  return TimestepOf(sigma, log_sigmas);
}

std::vector<float> WithFinal(absl::Span<const double> sigmas, float last) {
  std::vector<float> all(sigmas.begin(), sigmas.end());
  all.push_back(last);
  return all;
}

float FinalSigma(const SchedulerConfig& config, absl::Span<const float> training_sigmas) {
  return config.final_sigmas_type == FinalSigmas::kZero ? 0.0f : training_sigmas.front();
}

double InitialNoiseScale(const SchedulerConfig& config, absl::Span<const float> sigmas) {
  const float max = *std::max_element(sigmas.begin(), sigmas.end());
  if (config.timestep_spacing != TimestepSpacing::kLeading || config.named_grid) return max;
  return std::sqrt(max * max + 1.0f);
}

}  // namespace latentd::schedulers
