#include "core/engine/refused_sizes.h"

namespace latentd::engine {

bool RefusedSizes::Covers(const Picture& larger, const Picture& smaller) const {
  if (!grows_) return larger == smaller;
  return larger.size.width >= smaller.size.width && larger.size.height >= smaller.size.height &&
         larger.rows >= smaller.rows && (larger.base || !smaller.base) &&
         (larger.refiner || !smaller.refiner) && (larger.image || !smaller.image);
}

void RefusedSizes::Add(const Picture& picture, int64_t bytes) {
  absl::MutexLock lock(&mutex_);
  if (refusals_.size() == kMost) refusals_.pop_front();
  refusals_.push_back({picture, bytes});
}

std::optional<RefusedSizes::Refusal> RefusedSizes::Find(const Picture& picture) const {
  absl::MutexLock lock(&mutex_);
  for (const Refusal& refusal : refusals_) {
    if (Covers(picture, refusal.picture)) return refusal;
  }
  return std::nullopt;
}

}  // namespace latentd::engine
