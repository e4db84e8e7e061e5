// A thread that turns finished pixels into files, so that the loop goes on with the next unit
// meanwhile.
//
// Add may be called from any thread; tasks run one after the other in the order they were added.
// The queue is bounded by the pictures that the engine admits. The destructor runs what was added
// and waits for it.
#pragma once

#include <deque>
#include <functional>
#include <thread>

#include "absl/base/thread_annotations.h"
#include "absl/synchronization/mutex.h"

namespace latentd::engine {

class ImageEncoder {
 public:
  ImageEncoder();
  ~ImageEncoder();

  void Add(std::function<void()> task) ABSL_LOCKS_EXCLUDED(mutex_);

 private:
  void RunLoop() ABSL_LOCKS_EXCLUDED(mutex_);
  bool HasWork() const ABSL_EXCLUSIVE_LOCKS_REQUIRED(mutex_) { return stop_ || !tasks_.empty(); }

  absl::Mutex mutex_;
  std::deque<std::function<void()>> tasks_ ABSL_GUARDED_BY(mutex_);
  bool stop_ ABSL_GUARDED_BY(mutex_) = false;
  std::thread thread_;
};

}  // namespace latentd::engine
