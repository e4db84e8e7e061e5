#include "core/schedulers/formulas/shared_rules.h"

#include "absl/strings/str_cat.h"

namespace latentd::schedulers {

void SetBetasOfStableDiffusion(SchedulerConfig& config) {
  config.beta_start = 0.00085;
  config.beta_end = 0.012;
}

std::optional<FieldViolation> FindSample(const SchedulerConfig& config) {
  if (config.prediction_type != PredictionType::kSample) return std::nullopt;
  return FieldViolation{
      "prediction_type",
      absl::StrCat(config.name(),
                   " supports epsilon and v_prediction, not sample, as in diffusers")};
}

}  // namespace latentd::schedulers
