// A Worker is a thread for tasks that take time, one after the other in the order in which they
// were added: a caller that adds one goes on, or waits, or is refused if too much waits.
#pragma once

#include <cstddef>
#include <deque>
#include <functional>
#include <limits>
#include <string>
#include <thread>

#include "absl/base/thread_annotations.h"
#include "absl/synchronization/mutex.h"

namespace latentd {

// Thread-safe. A task lets go of what it keeps as soon as it has run; one that throws
// std::bad_alloc has ended. Where there is no memory for one more, adding throws std::bad_alloc and
// has added nothing.
class Worker {
 public:
  static constexpr size_t kUnbounded = std::numeric_limits<size_t>::max();

  // `most`: of the sizes of the tasks that wait or run, together; a single one may have more,
  // alone. The kernel keeps 15 bytes of the name. A process that gets no thread ends here
  // (core/base/threads/threads.h).
  explicit Worker(std::string name, size_t most = kUnbounded);

  // Stops.
  ~Worker();

  // Waits for room, then adds the task. REQUIRES: there is no bound, or this is not called by a
  // task.
  void Add(std::function<void()> task, size_t size = 1) ABSL_LOCKS_EXCLUDED(mutex_);

  // Adds the task iff there is room for it.
  bool TryAdd(std::function<void()> task, size_t size = 1) ABSL_LOCKS_EXCLUDED(mutex_);

  // Adds a task that something else bounds, such as the next part of one that was added: it needs
  // no room. A task may do so.
  void Continue(std::function<void()> task) ABSL_LOCKS_EXCLUDED(mutex_);

  // Adds the task, which needs no room, and waits until it has run and all that was added before.
  // Throws std::bad_alloc if it does. REQUIRES: not called by a task.
  void Run(const std::function<void()>& task) ABSL_LOCKS_EXCLUDED(mutex_);

  // Waits until all that was added before has run. REQUIRES: not called by a task.
  void Flush() {
    Run([] {});
  }

  // Runs all added tasks, and those that they add, and ends the thread. No other caller may add a
  // task from now on. Does nothing the second time.
  void Stop() ABSL_LOCKS_EXCLUDED(mutex_);

 private:
  struct Task {
    std::function<void()> run;
    size_t size = 0;
  };

  void Loop() ABSL_LOCKS_EXCLUDED(mutex_);
  bool HasRoom(size_t size) const ABSL_SHARED_LOCKS_REQUIRED(mutex_) {
    return taken_ == 0 || (taken_ <= most_ && size <= most_ - taken_);
  }
  void Push(std::function<void()> task, size_t size) ABSL_EXCLUSIVE_LOCKS_REQUIRED(mutex_);
  bool HasWork() const ABSL_SHARED_LOCKS_REQUIRED(mutex_) { return stop_ || !tasks_.empty(); }

  const size_t most_;
  absl::Mutex mutex_;
  std::deque<Task> tasks_ ABSL_GUARDED_BY(mutex_);
  size_t taken_ ABSL_GUARDED_BY(mutex_) = 0;  // part of `most_` that waiting and running tasks use
  bool stop_ ABSL_GUARDED_BY(mutex_) = false;
  std::thread thread_;
};

}  // namespace latentd
