#include "core/schedulers/formulas/edm.h"

#include <cmath>

namespace latentd::schedulers {

std::optional<FieldViolation> FindEdmMistake(const SchedulerConfig& config) {
  if (config.prediction_type != PredictionType::kSample) return std::nullopt;
  return FieldViolation{"prediction_type",
                        "EDM's schedulers support epsilon and v_prediction, not sample, as in "
                        "diffusers"};
}

float EdmInputScale(const SchedulerConfig& config, double sigma) {
  return static_cast<float>(1 / std::hypot(sigma, config.sigma_data));
}

Estimate EdmOriginal(const SchedulerConfig& config, double sigma) {
  const double data = config.sigma_data;
  const double length = std::hypot(sigma, data);
  const double of_output = sigma * data / length;
  return {data * data / (length * length),
          config.prediction_type == PredictionType::kVPrediction ? -of_output : of_output};
}

}  // namespace latentd::schedulers
