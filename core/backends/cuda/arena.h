// The memory of a GPU that the intermediates of all executables share, since one of them runs at a
// time: as large as the largest needs.
//
// It is a range of addresses as long as the GPU's memory, reserved once, of which the beginning is
// mapped, in small pieces: it grows and shrinks without moving, so that captured graphs may keep
// addresses in it. The runs of several streams wait for each other on the GPU (Turn).
// Thread-safe.
#pragma once

#include <cuda_runtime_api.h>

#include <cstddef>
#include <memory>
#include <set>
#include <utility>

#include "absl/base/thread_annotations.h"
#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "absl/synchronization/mutex.h"
#include "core/device/cuda/address_range.h"
#include "core/device/cuda/cuda_device.h"

namespace latentd::backends::cuda {

class Arena : public std::enable_shared_from_this<Arena> {
 public:
  // `device`, which must outlive the arena, is asked to give back what it has idle where there is
  // no memory. RESOURCE_EXHAUSTED: no range of so many addresses.
  static absl::StatusOr<std::shared_ptr<Arena>> Reserve(device::cuda::CudaDevice& device,
                                                        size_t bytes);
  // REQUIRES: nothing that was enqueued uses it.
  ~Arena();
  Arena(const Arena&) = delete;

  // Keeps the first `bytes` usable while it lives.
  class Lease {
   public:
    Lease(std::shared_ptr<Arena> arena, size_t bytes) : arena_(std::move(arena)), bytes_(bytes) {}
    ~Lease() { arena_->Release(bytes_); }
    Lease(const Lease&) = delete;

    char* base() const { return arena_->base_; }
    size_t bytes() const { return bytes_; }
    Arena& arena() const { return *arena_; }

   private:
    std::shared_ptr<Arena> arena_;
    size_t bytes_;
  };

  // RESOURCE_EXHAUSTED with reason OUT_OF_MEMORY says how many bytes were wanted.
  absl::StatusOr<std::unique_ptr<Lease>> Take(size_t bytes) ABSL_LOCKS_EXCLUDED(mutex_);

  // Enqueues `work` on the stream, behind every run before it. Where it fails some of it may be on
  // the stream: the next run is behind that too.
  template <typename Work>
  absl::Status Turn(cudaStream_t stream, const Work& work) ABSL_LOCKS_EXCLUDED(runs_) {
    absl::MutexLock lock(&runs_);
    if (absl::Status before = AwaitLast(stream); !before.ok()) return before;
    const absl::Status enqueued = work();
    const absl::Status remembered = Remember(stream);
    return enqueued.ok() ? remembered : enqueued;
  }

  // The need of the largest lease.
  size_t bytes() const ABSL_LOCKS_EXCLUDED(mutex_);

 private:
  Arena(device::cuda::CudaDevice& device, std::unique_ptr<device::cuda::AddressRange> range,
        cudaEvent_t last_run)
      : device_(device), base_(range->base()), last_run_(last_run), range_(std::move(range)) {}
  // By one piece.
  absl::Status Grow() ABSL_EXCLUSIVE_LOCKS_REQUIRED(mutex_);
  size_t mapped() const ABSL_EXCLUSIVE_LOCKS_REQUIRED(mutex_) { return pieces_ * kPiece; }
  void Release(size_t bytes) ABSL_LOCKS_EXCLUDED(mutex_);
  absl::Status AwaitLast(cudaStream_t stream) ABSL_EXCLUSIVE_LOCKS_REQUIRED(runs_);
  absl::Status Remember(cudaStream_t stream) ABSL_EXCLUSIVE_LOCKS_REQUIRED(runs_);

  // A multiple of what GPUs map at once. Half of one is wasted, and mapping one takes little: a
  // decoder of 1024x1024 has some 160.
  static constexpr size_t kPiece = size_t{8} << 20;

  device::cuda::CudaDevice& device_;
  char* const base_;

  absl::Mutex runs_;
  cudaStream_t last_ ABSL_GUARDED_BY(runs_) = nullptr;
  const cudaEvent_t last_run_;  // recorded behind each run

  mutable absl::Mutex mutex_;
  std::multiset<size_t> leases_ ABSL_GUARDED_BY(mutex_);
  const std::unique_ptr<device::cuda::AddressRange> range_ ABSL_PT_GUARDED_BY(mutex_);
  size_t pieces_ ABSL_GUARDED_BY(mutex_) = 0;  // number of mapped pieces, from the beginning
};

}  // namespace latentd::backends::cuda
