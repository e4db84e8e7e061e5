// SIGTERM and SIGINT as something to ask for, instead of handlers.
#pragma once

#include <atomic>
#include <thread>

#include "absl/base/thread_annotations.h"
#include "absl/synchronization/mutex.h"
#include "absl/time/time.h"

namespace latentd::server {

// Blocks both signals in this thread and in those that it starts from now on. Call first thing in
// main.
void BlockStopSignals();

// Waits for them in a thread of its own: the first one requests the stop, the second ends the
// process at once with 128 + the signal's number. Thread-safe. REQUIRES: BlockStopSignals was
// called before any thread was started.
class StopSignals {
 public:
  StopSignals();
  ~StopSignals();

  // As a signal would.
  void RequestStop();

  // Whether a stop was requested before `timeout` passed.
  bool WaitForStop(absl::Duration timeout);

 private:
  void Loop();

  absl::Mutex mutex_;
  bool stop_requested_ ABSL_GUARDED_BY(mutex_) = false;
  std::atomic<bool> ending_ = false;
  std::thread thread_;
};

}  // namespace latentd::server
