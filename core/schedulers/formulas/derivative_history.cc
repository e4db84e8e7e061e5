#include "core/schedulers/formulas/derivative_history.h"

#include "core/schedulers/formulas/step_matrix.h"

namespace latentd::schedulers {

StepCoefficients AddDerivatives(PredictionType type, float sigma,
                                const std::array<double, kDerivatives>& weights) {
  const Estimate derivative = EstimateDerivative(type, sigma);
  StepMatrix matrix;
  matrix.at(kX, kX) = 1;
  matrix.Add(kX, weights[0], derivative);
  matrix.at(kX, kH1) = weights[1];
  matrix.at(kX, kH2) = weights[2];
  matrix.at(kX, kH3) = weights[3];
  matrix.Add(kH1, 1, derivative);
  matrix.at(kH2, kH1) = 1;
  matrix.at(kH3, kH2) = 1;
  return {.input_scale = InputScale(sigma),
          .matrix = matrix.ToFloat(),
          .predicted = EstimateOriginal(type, sigma).ToFloat()};
}

}  // namespace latentd::schedulers
