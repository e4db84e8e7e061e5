#include "core/engine/cache_watch.h"

#include <utility>

#include "core/base/out_of_memory.h"
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
  const absl::Status added = CatchOutOfMemory([this] {
    thread_.Add([this] { Look(); });
    return absl::OkStatus();
  });
  waits_ = added.ok();
}

void CacheWatch::Look() {
  {
    absl::MutexLock lock(&mutex_);
    waits_ = false;
  }
  const absl::Time begun = parts_.clock.Wall();
  // The next look sees changes for which there was no memory.
  CatchOutOfMemory([&] {
    parts_.look();
    last_look_.Set(absl::ToDoubleSeconds(begun - absl::UnixEpoch()));
    parts_.changed();
    return absl::OkStatus();
  }).IgnoreError();
}

}  // namespace latentd::engine
