// One thread that runs tasks one after the other, in the order in which they were added: what turns
// finished pixels into files while the loop goes on, and what compiles and loads graphs.
//
// Add may be called from any thread. Whoever adds bounds how much waits. The destructor runs what
// was added and waits for it.
#pragma once

#include <deque>
#include <functional>
#include <string>
#include <thread>

#include "absl/base/thread_annotations.h"
#include "absl/synchronization/mutex.h"

namespace latentd::engine {

class TaskThread {
 public:
  explicit TaskThread(std::string name);
  ~TaskThread();

  void Add(std::function<void()> task) ABSL_LOCKS_EXCLUDED(mutex_);

  // Adds the task and waits until it has run. REQUIRES: not called by a task.
  void Run(const std::function<void()>& task) ABSL_LOCKS_EXCLUDED(mutex_);

 private:
  // By itself: the analysis of locks does not look into destructors.
  void Stop() ABSL_LOCKS_EXCLUDED(mutex_);
  void RunLoop() ABSL_LOCKS_EXCLUDED(mutex_);
  bool HasWork() const ABSL_EXCLUSIVE_LOCKS_REQUIRED(mutex_) { return stop_ || !tasks_.empty(); }

  absl::Mutex mutex_;
  std::deque<std::function<void()>> tasks_ ABSL_GUARDED_BY(mutex_);
  bool stop_ ABSL_GUARDED_BY(mutex_) = false;
  std::thread thread_;
};

}  // namespace latentd::engine
