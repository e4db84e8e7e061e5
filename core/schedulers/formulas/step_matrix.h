// The arithmetic of tables: what the network's output says about signal and noise, and the matrix
// of a step. All in double; rounded to float32 once, at the end. Private to core/schedulers.
#pragma once

#include <algorithm>
#include <array>
#include <cmath>

#include "core/schedulers/config/scheduler_config.h"
#include "core/schedulers/formulas/step_coefficients.h"

namespace latentd::schedulers {

// A linear combination of the latents and the network's output.
struct Estimate {
  std::array<float, 2> ToFloat() const {
    return {static_cast<float>(x), static_cast<float>(output)};
  }

  double x = 0;
  double output = 0;
};

// Latents are signal * x0 + noise * n with signal² + noise² = 1. What the output says x0 is.
inline Estimate EstimateSignal(PredictionType type, double signal, double noise) {
  switch (type) {
    case PredictionType::kEpsilon:
      return {1 / signal, -noise / signal};
    case PredictionType::kVPrediction:
      return {signal, -noise};
    case PredictionType::kSample:
      break;
  }
  return {0, 1};
}

// The same latents. What the output says n is.
inline Estimate EstimateNoise(PredictionType type, double signal, double noise) {
  switch (type) {
    case PredictionType::kEpsilon:
      return {0, 1};
    case PredictionType::kVPrediction:
      return {noise, signal};
    case PredictionType::kSample:
      break;
  }
  return {1 / noise, -signal / noise};
}

// Latents are x0 + sigma * n, and the network has seen them over √(sigma² + 1). What the output
// says n is: the derivative of the latents by sigma.
inline Estimate EstimateDerivative(PredictionType type, double sigma) {
  const double signal = 1 / std::sqrt(sigma * sigma + 1);
  switch (type) {
    case PredictionType::kEpsilon:
      return {0, 1};
    case PredictionType::kVPrediction:
      return {sigma * signal * signal, signal};
    case PredictionType::kSample:
      break;
  }
  return {1 / sigma, -1 / sigma};
}

// The same latents. What the output says x0 is: x - sigma * n.
inline Estimate EstimateOriginal(PredictionType type, double sigma) {
  const Estimate derivative = EstimateDerivative(type, sigma);
  return {1 - sigma * derivative.x, -sigma * derivative.output};
}

// Ancestral noise, as in k-diffusion: a step from sigma to sigma_next goes down to a lower noise
// level, then adds the noise that leads up to sigma_next again. up² = sigma_next² (sigma² -
// sigma_next²) / sigma², down² = sigma_next² - up²; but neither is computed as a small difference.
inline double AncestralDown(double sigma, double sigma_next) {
  return sigma_next * sigma_next / sigma;
}
inline double AncestralUp(double sigma, double sigma_next) {
  const double ratio = sigma_next / sigma;
  return sigma_next * std::sqrt(std::max(1 - ratio * ratio, 0.0));
}

// Scale of the network's input when latents are x0 + sigma * n.
inline float InputScale(float sigma) { return 1 / std::sqrt(sigma * sigma + 1.0f); }

// Columns of the matrix.
enum Column { kX, kH1, kH2, kH3, kOutput, kNoise };

// Rows are named by the columns that they become: kX to kH3.
class StepMatrix {
 public:
  double& at(Column row, Column column) {
    return values_[static_cast<size_t>(row) * kCombined + column];
  }

  void Add(Column row, double scale, Estimate estimate) {
    at(row, kX) += scale * estimate.x;
    at(row, kOutput) += scale * estimate.output;
  }

  std::array<float, kMatrixElements> ToFloat() const {
    std::array<float, kMatrixElements> rounded;
    for (size_t i = 0; i < rounded.size(); ++i) rounded[i] = static_cast<float>(values_[i]);
    return rounded;
  }

 private:
  std::array<double, kMatrixElements> values_{};
};

}  // namespace latentd::schedulers
