// A thread for what operators ask for and takes time: gRPC's threads must not wait for disks or
// compilers. One piece of work at a time, in the order in which it came; bounded.
#pragma once

#include <deque>
#include <functional>
#include <string>
#include <thread>

#include "absl/base/thread_annotations.h"
#include "absl/status/status.h"
#include "absl/synchronization/mutex.h"

namespace latentd::server::admin {

inline constexpr size_t kMaxWaitingWork = 16;

// Thread-safe.
class AdminWorker {
 public:
  // `thread_name` has at most 15 bytes.
  explicit AdminWorker(const std::string& thread_name);
  // Runs what still waits.
  ~AdminWorker();

  // `work` runs once, later, iff this returns OK; RESOURCE_EXHAUSTED (reason QUEUE_FULL, with a
  // retry delay) where kMaxWaitingWork wait.
  absl::Status Add(std::function<void()> work);

  // The next part of work that Add took: not refused. A call has one such part at a time.
  void Continue(std::function<void()> work);

 private:
  // By itself: the analysis of locks does not look into destructors.
  void Stop() ABSL_LOCKS_EXCLUDED(mutex_);
  void Loop();

  absl::Mutex mutex_;
  std::deque<std::function<void()>> waiting_ ABSL_GUARDED_BY(mutex_);
  bool stop_ ABSL_GUARDED_BY(mutex_) = false;
  std::thread thread_;
};

}  // namespace latentd::server::admin
