// A clock that tests move by hand.
#pragma once

#include "absl/synchronization/mutex.h"
#include "core/base/clock.h"

namespace latentd::testing {

class FakeClock : public Clock {
 public:
  absl::Time Monotonic() const override {
    absl::MutexLock lock(&mutex_);
    return now_;
  }
  absl::Time Wall() const override { return Monotonic(); }

  void Advance(absl::Duration duration) {
    absl::MutexLock lock(&mutex_);
    now_ += duration;
  }

 private:
  mutable absl::Mutex mutex_;
  absl::Time now_ ABSL_GUARDED_BY(mutex_) = absl::UnixEpoch() + absl::Hours(1);
};

}  // namespace latentd::testing
