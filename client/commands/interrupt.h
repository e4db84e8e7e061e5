// Ctrl-C, and the other stop signals (core/base/process/stop_signals.h), as a call to a function
// instead of a handler.
#pragma once

#include <atomic>
#include <functional>
#include <thread>

#include "absl/base/thread_annotations.h"
#include "absl/synchronization/mutex.h"
#include "absl/time/time.h"

namespace latentd::client {

// REQUIRES: BlockStopSignals was called before any thread was started.
//
// While it lives, the first signal calls `action` from another thread. The process ends with 130
// at the second one, or if it still runs two seconds later: it may wait for a reader of its
// output.
class Interrupt {
 public:
  explicit Interrupt(std::function<void()> action);
  ~Interrupt();

  bool happened() const;

  // True if that was so before `timeout` passed.
  bool WaitFor(absl::Duration timeout);

 private:
  void Loop();

  const std::function<void()> action_;
  mutable absl::Mutex mutex_;
  bool happened_ ABSL_GUARDED_BY(mutex_) = false;
  std::atomic<bool> ending_ = false;
  std::thread thread_;
};

}  // namespace latentd::client
