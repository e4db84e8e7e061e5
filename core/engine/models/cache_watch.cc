#include "core/engine/models/cache_watch.h"

#include <utility>

#include "core/metrics/families.h"

namespace latentd::engine {

CacheWatch::CacheWatch(Parts parts)
    : parts_(std::move(parts)),
      last_look_(parts_.registry.GetGauge(metrics::kGraphCacheLastLook)) {}

void CacheWatch::LookIfDue() {
  {
    const absl::Time now = parts_.clock.Monotonic();
    absl::MutexLock lock(&mutex_);
    if (now < next_) return;
    next_ = now + kPeriod;
  }
  LookSoon();
}

void CacheWatch::LookSoon() {
  absl::MutexLock lock(&mutex_);
  if (waits_) return;
  thread_.Add([this] { Look(); });
  waits_ = true;
}

void CacheWatch::Look() {
  {
    absl::MutexLock lock(&mutex_);
    waits_ = false;
  }
  const absl::Time begun = parts_.clock.Wall();
  // The next look sees changes for which there was no memory.
  parts_.look();
  last_look_.Set(absl::ToDoubleSeconds(begun - absl::UnixEpoch()));
  parts_.changed();
}

}  // namespace latentd::engine
