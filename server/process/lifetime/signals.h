// Stop signals (core/base/process/stop_signals.h) as something to ask for, instead of handlers.
#pragma once

#include <atomic>
#include <optional>
#include <string>
#include <thread>

#include "absl/base/thread_annotations.h"
#include "absl/strings/string_view.h"
#include "absl/synchronization/mutex.h"
#include "absl/time/time.h"

namespace latentd::server::process {

// Writing to a connection that is gone, or beyond a limit on file sizes, is an error of that write
// and not the end of the process. Call before any thread is started.
void IgnoreWriteSignals();

// Ends the process without cleaning up, after a last line in the log, for which it waits as
// long as FlushLog does. Thread-safe.
[[noreturn]] void EndAtOnce(int exit_code, absl::string_view message, const std::string& cause);

// Waits for them in a thread of its own. Until DrainFirst is called, a signal ends the process at
// once with 128 + its number: files, names and sockets are being opened, and any of them may never
// answer. After that the first one requests the stop, and the second ends the process. Thread-safe.
// REQUIRES: BlockStopSignals was called before any thread was started.
class StopSignals {
 public:
  StopSignals();
  ~StopSignals();

  // Makes a signal begin a drain: from now on a thread waits for the stop.
  void DrainFirst() { drain_first_ = true; }

  // As a signal would. `cause` is for the log; `drain_timeout` replaces the configured one. Of
  // several calls the first counts.
  void RequestStop(absl::string_view cause,
                   std::optional<absl::Duration> drain_timeout = std::nullopt);

  // True if a stop was requested before `timeout` passed.
  bool WaitForStop(absl::Duration timeout);

  // The arguments of the requested stop.
  std::optional<absl::Duration> drain_timeout();
  std::string cause();

 private:
  void Loop();

  absl::Mutex mutex_;
  bool stop_requested_ ABSL_GUARDED_BY(mutex_) = false;
  std::optional<absl::Duration> drain_timeout_ ABSL_GUARDED_BY(mutex_);
  std::string cause_ ABSL_GUARDED_BY(mutex_);
  std::atomic<bool> drain_first_ = false;
  std::atomic<bool> ending_ = false;
  std::thread thread_;
};

}  // namespace latentd::server::process
