#include "core/schedulers/sigmas.h"

#include <algorithm>
#include <cmath>

#include "core/schedulers/beta_distribution.h"
#include "core/schedulers/timesteps.h"

namespace latentd::schedulers {
namespace {

constexpr double kKarrasRho = 7;
constexpr double kBetaShape = 0.6;

double Interpolated(absl::Span<const float> training_sigmas, double timestep) {
  const double last = static_cast<double>(training_sigmas.size() - 1);
  if (timestep <= 0) return training_sigmas.front();
  if (timestep >= last) return training_sigmas.back();
  const size_t below = static_cast<size_t>(timestep);
  const double low = training_sigmas[below];
  const double slope = training_sigmas[below + 1] - low;
  return slope * (timestep - static_cast<double>(below)) + low;
}

std::vector<double> BetaQuantiles(double max, double min, int count) {
  std::vector<double> sigmas = Linspace(0, 1, count);
  for (double& value : sigmas) {
    value = min + BetaQuantile(1 - value, kBetaShape, kBetaShape) * (max - min);
  }
  return sigmas;
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

bool SpreadsSigmas(const SchedulerConfig& config) {
  return config.use_karras_sigmas || config.use_exponential_sigmas || config.use_beta_sigmas ||
         config.use_lu_lambdas;
}

std::vector<double> SpreadSigmas(const SchedulerConfig& config, double first, double last,
                                 int count) {
  if (config.use_lu_lambdas) return ExponentialSigmas(first, last, count);
  const double max = config.sigma_max.value_or(first);
  const double min = config.sigma_min.value_or(last);
  if (config.use_karras_sigmas) return KarrasSigmas(max, min, count, kKarrasRho);
  if (config.use_exponential_sigmas) return ExponentialSigmas(max, min, count);
  return BetaQuantiles(max, min, count);
}

std::vector<float> LogSigmas(absl::Span<const float> training_sigmas) {
  std::vector<float> logs(training_sigmas.begin(), training_sigmas.end());
  for (float& value : logs) value = std::log(value);
  return logs;
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
  if (config.timestep_spacing != TimestepSpacing::kLeading) return max;
  return std::sqrt(max * max + 1.0f);
}

}  // namespace latentd::schedulers
