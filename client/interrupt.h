// Ctrl-C (SIGINT, SIGTERM) as a call to a function instead of a handler.
#pragma once

#include <atomic>
#include <functional>
#include <thread>

#include "absl/base/thread_annotations.h"
#include "absl/synchronization/mutex.h"
#include "absl/time/time.h"

namespace latentd::client {

// Ctrl-C ends the process at once, with 128 + the signal's number, until BlockInterrupts. By
// handlers: the kernel drops a signal without one where the process is the first of a container.
// Call first in main.
void EndAtInterrupts();

// Blocks the signals in this thread and in those that it starts. Call before anything that starts
// threads, as a client does, and after the last file that was read: until then a signal ends the
// process at once, however long a pipe or a file system keeps it waiting.
void BlockInterrupts();

// While it lives, the first signal calls `action` from another thread. The process ends with 130 at
// the second one, or where it still runs two seconds later: it may wait for somebody to read what
// it writes.
class Interrupt {
 public:
  explicit Interrupt(std::function<void()> action);
  ~Interrupt();

  bool happened() const;

  // Whether it happened before `timeout` passed.
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
