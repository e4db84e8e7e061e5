// Counts the bytes of finished pictures on their way to clients, of all requests together: pixels
// that wait for the encoder, and files of which a client has not read the last part.
//
// Thread-safe. Tokens may outlive the engine.
#pragma once

#include <atomic>
#include <cstdint>
#include <functional>
#include <memory>

#include "absl/base/thread_annotations.h"
#include "absl/synchronization/mutex.h"

namespace latentd::engine {

class ResultBytes : public std::enable_shared_from_this<ResultBytes> {
 public:
  // `on_release` is called after the count has gone down, from the thread that let go.
  explicit ResultBytes(std::function<void()> on_release) : on_release_(std::move(on_release)) {}

  // `bytes` count until the last copy of what this returns is gone. REQUIRES: owned by a
  // shared_ptr.
  std::shared_ptr<const void> Count(size_t bytes);

  int64_t total() const { return total_; }

  // From its return on, on_release is not called.
  void Disconnect() ABSL_LOCKS_EXCLUDED(mutex_);

 private:
  void Release(int64_t bytes) ABSL_LOCKS_EXCLUDED(mutex_);

  std::atomic<int64_t> total_ = 0;
  absl::Mutex mutex_;
  std::function<void()> on_release_ ABSL_GUARDED_BY(mutex_);
};

}  // namespace latentd::engine
