// An EventSink that keeps all events, and wakes a test that waits for the end.
#pragma once

#include <variant>
#include <vector>

#include "absl/synchronization/mutex.h"
#include "core/engine/api/events.h"

namespace latentd::testing {

// For what takes milliseconds, and under a sanitizer on a busy machine a minute.
inline constexpr absl::Duration kLongestWait = absl::Minutes(10);

class RecordingSink : public engine::EventSink {
 public:
  void OnEvent(engine::Event event) override {
    absl::MutexLock lock(&mutex_);
    events_.push_back(std::move(event));
  }

  // Blocks until Completed or Failed is there (or kLongestWait has passed: then the test is about
  // to fail), and returns all.
  std::vector<engine::Event> WaitForEnd() {
    absl::MutexLock lock(&mutex_);
    mutex_.AwaitWithTimeout(absl::Condition(this, &RecordingSink::Ended), kLongestWait);
    return events_;
  }

  // All so far.
  std::vector<engine::Event> events() {
    absl::MutexLock lock(&mutex_);
    return events_;
  }

  // Lets go of what it was told, as a client that has read it all.
  void Clear() {
    absl::MutexLock lock(&mutex_);
    events_.clear();
  }

  // Blocks until an event of type T is there.
  template <typename T>
  void WaitFor() {
    absl::MutexLock lock(&mutex_);
    mutex_.AwaitWithTimeout(absl::Condition(this, &RecordingSink::Has<T>), kLongestWait);
  }

 private:
  bool Ended() const ABSL_EXCLUSIVE_LOCKS_REQUIRED(mutex_) {
    return Has<engine::Completed>() || Has<engine::Failed>();
  }
  template <typename T>
  bool Has() const ABSL_EXCLUSIVE_LOCKS_REQUIRED(mutex_) {
    for (const engine::Event& event : events_) {
      if (std::holds_alternative<T>(event)) return true;
    }
    return false;
  }

  absl::Mutex mutex_;
  std::vector<engine::Event> events_ ABSL_GUARDED_BY(mutex_);
};

}  // namespace latentd::testing
