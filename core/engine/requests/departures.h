// Tells when what requests have held is gone, for others that wait for its memory.
//
// Thread-safe.
#pragma once

#include <functional>
#include <memory>
#include <utility>

#include "absl/base/thread_annotations.h"
#include "absl/synchronization/mutex.h"

namespace latentd::engine {

class Departures : public std::enable_shared_from_this<Departures> {
 public:
  // `tell` is called by whichever thread lets go of something, with whatever locks it has: it waits
  // for nothing, lets go of no presence itself, and does not fail.
  explicit Departures(std::function<void()> tell) : tell_(std::move(tell)) {}

  // A presence, whose departure is told when it is let go of. It may outlive the object.
  std::shared_ptr<const void> Expect() {
    return {static_cast<const void*>(this), [departures = weak_from_this()](const void*) {
              if (const auto alive = departures.lock()) alive->Tell();
            }};
  }

  // None is told from now on.
  void Disconnect() ABSL_LOCKS_EXCLUDED(mutex_) {
    absl::MutexLock lock(&mutex_);
    tell_ = nullptr;
  }

 private:
  void Tell() ABSL_LOCKS_EXCLUDED(mutex_) {
    absl::MutexLock lock(&mutex_);
    if (tell_) tell_();
  }

  absl::Mutex mutex_;
  std::function<void()> tell_ ABSL_GUARDED_BY(mutex_);
};

}  // namespace latentd::engine
