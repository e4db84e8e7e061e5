// Signals: SIGTERM and SIGINT as something to ask for, instead of handlers.
#pragma once

#include <atomic>
#include <optional>
#include <thread>

#include "absl/base/thread_annotations.h"
#include "absl/synchronization/mutex.h"
#include "absl/time/time.h"

namespace latentd::server {

// Blocks both in this thread and in those that it starts from now on. Call first thing in
// main.
void BlockStopSignals();

// Writing to a connection that is gone, or beyond a limit on file sizes, is an error of that write
// and not the end of the process. Call in main.
void IgnoreWriteSignals();

// Waits for them in a thread of its own: the first one requests the stop, the second ends the
// process at once with 128 + the signal's number. Thread-safe. REQUIRES: BlockStopSignals was
// called before any thread was started.
class StopSignals {
 public:
  StopSignals();
  ~StopSignals();

  // As a signal would. `drain_timeout` replaces the configured one; of several calls the first
  // counts.
  void RequestStop(std::optional<absl::Duration> drain_timeout = std::nullopt);

  // Whether a stop was requested before `timeout` passed.
  bool WaitForStop(absl::Duration timeout);

  // What the stop was requested with.
  std::optional<absl::Duration> drain_timeout();

 private:
  void Loop();

  absl::Mutex mutex_;
  bool stop_requested_ ABSL_GUARDED_BY(mutex_) = false;
  std::optional<absl::Duration> drain_timeout_ ABSL_GUARDED_BY(mutex_);
  std::atomic<bool> ending_ = false;
  std::thread thread_;
};

}  // namespace latentd::server
