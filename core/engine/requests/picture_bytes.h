// Counts the bytes that the host holds of pictures on their way in and out, of all requests
// together, against one budget: init images and latents that came with requests, pixels that wait
// for the encoder, and files of which a client has not read the last part.
//
// Inputs may have a half of it, and are refused beyond (batching::AdmissionControl). Results
// may have all that is left; a picture that has begun below that may go beyond. So there
// is room for pictures to leave, whatever waits to begin.
//
// Thread-safe. Tokens may outlive the engine.
#pragma once

#include <array>
#include <atomic>
#include <cstddef>
#include <cstdint>
#include <functional>
#include <memory>
#include <utility>

#include "absl/base/thread_annotations.h"
#include "absl/synchronization/mutex.h"

namespace latentd::engine {

class PictureBytes : public std::enable_shared_from_this<PictureBytes> {
 public:
  enum class Kind : uint8_t {
    kInput,      // init images and latents, until the pictures that are made of them are gone
    kUnencoded,  // finished pictures that wait for the encoder, or that it is at
    kResult      // files that are not read; previews, encoded or not
  };

  // `on_release` is called after a count has gone down, from the thread that let go.
  PictureBytes(int64_t budget, std::function<void()> on_release)
      : budget_(budget), on_release_(std::move(on_release)) {}

  // `bytes` count until the last copy of what this returns is gone. REQUIRES: owned by a
  // shared_ptr.
  std::shared_ptr<const void> Count(Kind kind, size_t bytes);

  int64_t inputs() const { return counts_[Index(Kind::kInput)].bytes; }
  // Bytes on their way out.
  int64_t results() const {
    return counts_[Index(Kind::kUnencoded)].bytes + counts_[Index(Kind::kResult)].bytes;
  }
  // Pictures, of kUnencoded.
  int unencoded() const { return counts_[Index(Kind::kUnencoded)].tokens; }

  int64_t budget() const { return budget_; }
  int64_t most_inputs() const { return budget_ / 2; }
  // For more than there are. Where there are none, there is in any case.
  bool HasRoomForResults() const {
    const int64_t now = results();
    return now == 0 || inputs() + now < budget_;
  }

  // From its return on, on_release is not called.
  void Disconnect() ABSL_LOCKS_EXCLUDED(mutex_);

 private:
  struct Counted {
    std::atomic<int64_t> bytes = 0;
    std::atomic<int> tokens = 0;
  };
  static constexpr size_t Index(Kind kind) { return static_cast<size_t>(kind); }
  void Release(Kind kind, int64_t bytes) ABSL_LOCKS_EXCLUDED(mutex_);

  const int64_t budget_;
  std::array<Counted, 3> counts_;  // by kind
  absl::Mutex mutex_;
  std::function<void()> on_release_ ABSL_GUARDED_BY(mutex_);
};

}  // namespace latentd::engine
