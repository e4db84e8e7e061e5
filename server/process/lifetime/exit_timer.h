// Ends the process when stopping takes too long. Its thread is there from the start, since there
// may be none to have when it is needed.
//
// Thread-safe.
#pragma once

#include <functional>
#include <thread>

#include "absl/base/thread_annotations.h"
#include "absl/synchronization/mutex.h"
#include "absl/time/time.h"

namespace latentd::server::process {

class ExitTimer {
 public:
  ExitTimer();
  // The time is up no more.
  ~ExitTimer();

  // Calls `exit` in `timeout`, unless the timer has gone by then. Once.
  void Start(absl::Duration timeout, std::function<void()> exit) ABSL_LOCKS_EXCLUDED(mutex_);

 private:
  void Loop() ABSL_LOCKS_EXCLUDED(mutex_);
  bool ended() const ABSL_EXCLUSIVE_LOCKS_REQUIRED(mutex_) { return ended_; }
  bool started() const ABSL_EXCLUSIVE_LOCKS_REQUIRED(mutex_) { return ended_ || exit_ != nullptr; }

  absl::Mutex mutex_;
  bool ended_ ABSL_GUARDED_BY(mutex_) = false;
  absl::Duration timeout_ ABSL_GUARDED_BY(mutex_);
  std::function<void()> exit_ ABSL_GUARDED_BY(mutex_);
  std::thread thread_;
};

}  // namespace latentd::server::process
