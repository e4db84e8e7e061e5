// Writes files on a thread of its own, in the order in which they were added: who makes a graph or
// a weight ready does not wait for the disk. What waits is bounded.
//
// Thread-safe. The destructor writes what was added and waits for it; a process that is killed
// loses what waits, which is made again.
#pragma once

#include <cstddef>
#include <functional>

#include "absl/base/thread_annotations.h"
#include "absl/synchronization/mutex.h"
#include "core/engine/task_thread.h"

namespace latentd::engine {

class WriteBehind {
 public:
  // Of what waits and what is being written; one write may have more, alone.
  explicit WriteBehind(size_t most_bytes) : most_bytes_(most_bytes) {}

  // Runs `write`, which keeps `bytes` in memory, later. Waits for room. REQUIRES: not called by a
  // write.
  void Add(size_t bytes, std::function<void()> write) ABSL_LOCKS_EXCLUDED(mutex_);

  // Waits until everything that was added before is written. REQUIRES: not called by a write.
  void Flush();

 private:
  const size_t most_bytes_;
  absl::Mutex mutex_;
  size_t waiting_bytes_ ABSL_GUARDED_BY(mutex_) = 0;
  TaskThread thread_{"disk writer"};  // last: its tasks use the others
};

}  // namespace latentd::engine
