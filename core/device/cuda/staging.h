// The way from pageable memory, such as a mapped file, to a GPU: by pieces of pinned memory, which
// threads fill beside each other while the GPU reads others. The driver's own way has one at a
// time.
#pragma once

#include <cuda_runtime_api.h>

#include <cstddef>
#include <deque>

#include "absl/base/thread_annotations.h"
#include "absl/status/status.h"
#include "absl/synchronization/mutex.h"

namespace latentd::device::cuda {

// Thread-safe. The pieces are taken when they are first needed, and kept.
class Staging {
 public:
  static constexpr size_t kPieceBytes = size_t{2} << 20;
  static constexpr int kMostPieces = 16;
  // Below that the driver copies at once what is to go.
  static constexpr size_t kLeastBytes = size_t{256} << 10;

  Staging() = default;
  // REQUIRES: all that was enqueued is done, and the GPU is selected.
  ~Staging();
  Staging(const Staging&) = delete;

  // Enqueues a copy to the GPU, and returns when `from` has been read. REQUIRES: the stream's GPU
  // is selected. Where there is no pinned memory the driver copies.
  absl::Status Upload(const void* from, void* to, size_t bytes, cudaStream_t stream);

 private:
  struct Piece {
    char* memory = nullptr;
    cudaEvent_t read = nullptr;  // by the GPU
  };

  static absl::Status Allocate(Piece& piece);
  static void Free(const Piece& piece);
  // The one that has not been used for longest, or a new one.
  absl::Status Take(Piece& piece) ABSL_LOCKS_EXCLUDED(mutex_);
  void PutBack(const Piece& piece) ABSL_LOCKS_EXCLUDED(mutex_);
  bool MayTake() const ABSL_SHARED_LOCKS_REQUIRED(mutex_) {
    return !idle_.empty() || pieces_ < kMostPieces;
  }
  absl::Status UploadPiece(const void* from, void* to, size_t bytes, cudaStream_t stream);

  absl::Mutex mutex_;
  std::deque<Piece> idle_ ABSL_GUARDED_BY(mutex_);
  int pieces_ ABSL_GUARDED_BY(mutex_) = 0;
};

}  // namespace latentd::device::cuda
