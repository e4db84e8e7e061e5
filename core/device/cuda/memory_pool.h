// Memory that CUDA gives and takes back slowly (freeing it waits for all that the device does):
// kept when it is freed, for the next one of its size.
//
// Thread-safe.
#pragma once

#include <cstddef>
#include <map>
#include <memory>
#include <vector>

#include "absl/base/thread_annotations.h"
#include "absl/status/statusor.h"
#include "absl/synchronization/mutex.h"

namespace latentd::device::cuda {

enum class MemoryKind : uint8_t { kDevice, kPinned };

class MemoryPool : public std::enable_shared_from_this<MemoryPool> {
 public:
  // Of that GPU, by CUDA's number.
  MemoryPool(int ordinal, MemoryKind kind) : ordinal_(ordinal), kind_(kind) {}
  ~MemoryPool();
  MemoryPool(const MemoryPool&) = delete;

  // At least `bytes`, aligned to 256, with whatever is in it. It goes back to the pool with the
  // last copy, which keeps the pool alive; REQUIRES then that nothing that was enqueued uses it.
  // RESOURCE_EXHAUSTED with reason OUT_OF_MEMORY: there is none, nor any to give back.
  absl::StatusOr<std::shared_ptr<void>> Take(size_t bytes) ABSL_LOCKS_EXCLUDED(mutex_);

  // Gives back to CUDA what nobody has.
  void Trim() ABSL_LOCKS_EXCLUDED(mutex_);

  size_t used_bytes() const ABSL_LOCKS_EXCLUDED(mutex_);
  size_t idle_bytes() const ABSL_LOCKS_EXCLUDED(mutex_);

 private:
  absl::Status Allocate(size_t bytes, void*& memory) const;
  absl::Status AllocateOrTrim(size_t bytes, void*& memory) ABSL_LOCKS_EXCLUDED(mutex_);
  void Free(void* memory) const;
  void* TakeIdle(size_t bytes) ABSL_LOCKS_EXCLUDED(mutex_);  // null: CUDA is to be asked
  void* PopIdle() ABSL_LOCKS_EXCLUDED(mutex_);
  void PutBack(void* memory, size_t bytes) ABSL_LOCKS_EXCLUDED(mutex_);

  const int ordinal_;
  const MemoryKind kind_;
  mutable absl::Mutex mutex_;
  struct SizeClass {
    std::vector<void*> idle;
    size_t used = 0;
  };
  std::map<size_t, SizeClass> classes_ ABSL_GUARDED_BY(mutex_);  // by size
};

}  // namespace latentd::device::cuda
