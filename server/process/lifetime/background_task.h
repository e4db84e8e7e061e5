// Work that may wait for a file system that does not answer, done again and again on a thread of
// its own: a caller that requests it does not wait.
#pragma once

#include <functional>
#include <string>
#include <thread>

#include "absl/base/thread_annotations.h"
#include "absl/synchronization/mutex.h"
#include "absl/time/time.h"

namespace latentd::server::process {

// Thread-safe.
class BackgroundTask {
 public:
  // `thread_name` has at most 15 bytes. Where there is no memory for `work`, it ends early.
  BackgroundTask(const std::string& thread_name, std::function<void()> work);
  // Waits for the work that was asked for, however long it takes.
  ~BackgroundTask();

  // Does the work soon; nothing where it is being done or waits. Returns at once.
  void RunSoon() ABSL_LOCKS_EXCLUDED(mutex_);

  // True if all requested work was done before `timeout` passed.
  bool WaitUntilDone(absl::Duration timeout) ABSL_LOCKS_EXCLUDED(mutex_);

 private:
  // By itself: the analysis of locks does not look into destructors.
  void Stop() ABSL_LOCKS_EXCLUDED(mutex_);
  void Loop() ABSL_LOCKS_EXCLUDED(mutex_);
  bool done() const ABSL_SHARED_LOCKS_REQUIRED(mutex_) { return !wanted_; }
  bool has_work() const ABSL_SHARED_LOCKS_REQUIRED(mutex_) { return stop_ || wanted_; }

  const std::function<void()> work_;
  absl::Mutex mutex_;
  bool wanted_ ABSL_GUARDED_BY(mutex_) = false;  // until it is done
  bool stop_ ABSL_GUARDED_BY(mutex_) = false;
  std::thread thread_;
};

}  // namespace latentd::server::process
