// Keeps what others can cause as often as they like (log lines about their connections) rare.
#pragma once

#include <cstdint>
#include <optional>
#include <utility>

#include "absl/base/thread_annotations.h"
#include "absl/synchronization/mutex.h"
#include "absl/time/time.h"
#include "core/base/clock.h"

namespace latentd::server::process {

// Thread-safe.
class RateLimit {
 public:
  // `clock` must outlive it.
  RateLimit(const Clock& clock, absl::Duration pause) : clock_(clock), pause_(pause) {}

  // Nothing: not now. Else how many were kept back since the last one.
  std::optional<int64_t> Take() ABSL_LOCKS_EXCLUDED(mutex_) {
    absl::MutexLock lock(&mutex_);
    const absl::Time now = clock_.Monotonic();
    if (now < next_) {
      ++kept_back_;
      return std::nullopt;
    }
    next_ = now + pause_;
    return std::exchange(kept_back_, 0);
  }

 private:
  const Clock& clock_;
  const absl::Duration pause_;
  absl::Mutex mutex_;
  absl::Time next_ ABSL_GUARDED_BY(mutex_) = absl::InfinitePast();
  int64_t kept_back_ ABSL_GUARDED_BY(mutex_) = 0;
};

}  // namespace latentd::server::process
