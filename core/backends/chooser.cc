#include "core/backends/chooser.h"

#include "absl/strings/str_cat.h"
#include "core/device/device_fault.h"

namespace latentd::backends {

absl::Status Chooser::Missing(const std::string& shape) {
  return absl::InvalidArgumentError(absl::StrCat("the plan has no choice for a ", shape));
}

bool Chooser::IsRefusal(const absl::Status& loaded) {
  return !loaded.ok() && !absl::IsResourceExhausted(loaded) && !device::IsFault(loaded);
}

std::optional<std::string> Chooser::Known(const std::string& shape) const {
  absl::MutexLock lock(&mutex_);
  const auto known = choices_.find(shape);
  if (known == choices_.end()) return std::nullopt;
  return known->second;
}

void Chooser::Note(const std::string& shape, const std::string& choice) const {
  absl::MutexLock lock(&mutex_);
  choices_[shape] = choice;
}

std::string Chooser::Keep(const std::string& shape, Choice chosen) const {
  if (chosen.work.has_value()) findings_->Count(*chosen.work);
  return chosen.lasting ? findings_->Keep(shape, std::move(chosen.bytes)) : std::move(chosen.bytes);
}

}  // namespace latentd::backends
