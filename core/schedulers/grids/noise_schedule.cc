#include "core/schedulers/grids/noise_schedule.h"

#include <algorithm>
#include <cmath>
#include <numbers>

namespace latentd::schedulers {
namespace {

constexpr float kLeastAlpha = 0x1p-24f;
constexpr double kMaxCosineBeta = 0.999;

std::vector<float> ScaledLinearBetas(const SchedulerConfig& config) {
  std::vector<float> betas =
      LinspaceFloat(static_cast<float>(std::sqrt(config.beta_start)),
                    static_cast<float>(std::sqrt(config.beta_end)), config.num_train_timesteps);
  for (float& beta : betas) beta *= beta;
  return betas;
}

double CosineAlphaBar(double time) {
  const double cosine = std::cos((time + 0.008) / 1.008 * std::numbers::pi / 2);
  return cosine * cosine;
}

// Betas whose cumulative product of (1 - beta) is the squared cosine above, time from 0 to 1.
std::vector<float> CosineBetas(int steps) {
  const double count = steps;
  std::vector<float> betas(steps);
  for (int i = 0; i < steps; ++i) {
    const double beta = 1 - CosineAlphaBar((i + 1) / count) / CosineAlphaBar(i / count);
    betas[i] = static_cast<float>(std::min(beta, kMaxCosineBeta));
  }
  return betas;
}

std::vector<float> Betas(const SchedulerConfig& config) {
  if (config.trained_betas) return {config.trained_betas->begin(), config.trained_betas->end()};
  switch (config.beta_schedule) {
    case BetaSchedule::kLinear:
      return LinspaceFloat(static_cast<float>(config.beta_start),
                           static_cast<float>(config.beta_end), config.num_train_timesteps);
    case BetaSchedule::kScaledLinear:
      return ScaledLinearBetas(config);
    case BetaSchedule::kSquaredcosCapV2:
      return CosineBetas(config.num_train_timesteps);
  }
  return {};
}

// torch accumulates float32 products in double on a CPU.
std::vector<float> CumulativeProduct(const std::vector<float>& factors) {
  std::vector<float> products;
  products.reserve(factors.size());
  double product = 1;
  for (float factor : factors) products.push_back(static_cast<float>(product *= factor));
  return products;
}

std::vector<float> OneMinus(std::vector<float> values) {
  for (float& value : values) value = 1.0f - value;
  return values;
}

std::vector<float> RescaledToZeroSnr(const std::vector<float>& betas) {
  std::vector<float> signal = CumulativeProduct(OneMinus(betas));
  for (float& value : signal) value = std::sqrt(value);
  const float last = signal.back();
  const float scale = signal.front() / (signal.front() - last);
  for (float& value : signal) value = (value - last) * scale;
  std::vector<float> alphas(signal.size());
  for (size_t i = 0; i < signal.size(); ++i) {
    const float square = signal[i] * signal[i];
    alphas[i] = i == 0 ? square : square / (signal[i - 1] * signal[i - 1]);
  }
  return OneMinus(std::move(alphas));
}

}  // namespace

std::vector<float> LinspaceFloat(float start, float stop, int count) {
  std::vector<float> values(count);
  const float step = (stop - start) / static_cast<float>(count - 1);
  for (int i = 0; i < count; ++i) {
    values[i] = i < count / 2 ? std::fma(step, static_cast<float>(i), start)
                              : std::fma(-step, static_cast<float>(count - 1 - i), stop);
  }
  return values;
}

std::vector<float> AlphasCumprod(const SchedulerConfig& config) {
  std::vector<float> betas = Betas(config);
  if (config.rescale_betas_zero_snr) betas = RescaledToZeroSnr(betas);
  return CumulativeProduct(OneMinus(std::move(betas)));
}

std::vector<float> TrainingSigmas(const SchedulerConfig& config) {
  std::vector<float> sigmas = AlphasCumprod(config);
  if (config.rescale_betas_zero_snr) sigmas.back() = kLeastAlpha;
  for (float& value : sigmas) value = std::sqrt((1.0f - value) / value);
  return sigmas;
}

}  // namespace latentd::schedulers
