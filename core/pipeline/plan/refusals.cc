#include "core/pipeline/plan/refusals.h"

namespace latentd::pipeline {

void Refusals::Add(const absl::Status& status) {
  const std::vector<FieldViolation> fields = GetFieldViolations(status);
  violations_.insert(violations_.end(), fields.begin(), fields.end());
  if (fields.empty()) other_.Update(status);
}

absl::Status Refusals::Join() const {
  return violations_.empty() ? other_ : InvalidFields(violations_);
}

}  // namespace latentd::pipeline
