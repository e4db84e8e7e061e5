// Memory that a driver gives and takes back slowly (freeing a GPU's waits for all that it does):
// kept when it is freed, for the next one of its size.
//
// Memory that is not reused is kept in vain: GiveBack returns it to the driver.
//
// Thread-safe.
#pragma once

#include <cstddef>
#include <functional>
#include <map>
#include <memory>
#include <utility>
#include <vector>

#include "absl/base/thread_annotations.h"
#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "absl/synchronization/mutex.h"
#include "core/device/device.h"

namespace latentd::device {

// The allocator below the pool. Called by any thread, several at a time.
struct MemoryDriver {
  // RESOURCE_EXHAUSTED with reason OUT_OF_MEMORY: there is none.
  std::function<absl::Status(size_t bytes, void*& memory)> allocate;
  std::function<void(void* memory)> free;  // does not fail
};

class MemoryPool : public std::enable_shared_from_this<MemoryPool> {
 public:
  explicit MemoryPool(MemoryDriver driver) : driver_(std::move(driver)) {}
  ~MemoryPool();
  MemoryPool(const MemoryPool&) = delete;

  // Bytes that Take takes for so many.
  static size_t RoundedUp(size_t bytes);

  // At least `bytes`, with whatever is in it. It goes back to the pool with the last copy, which
  // keeps the pool alive; REQUIRES then that nothing that was enqueued uses it. RESOURCE_EXHAUSTED
  // with reason OUT_OF_MEMORY: there is none, nor any to give back.
  absl::StatusOr<std::shared_ptr<void>> Take(size_t bytes) ABSL_LOCKS_EXCLUDED(mutex_);

  // Returns idle memory to the driver: all of it, or as much of each size as has stayed unused
  // since the last call. Memory that has been idle for longest goes first.
  void GiveBack(Kept what) ABSL_LOCKS_EXCLUDED(mutex_);

  size_t used_bytes() const ABSL_LOCKS_EXCLUDED(mutex_);
  size_t idle_bytes() const ABSL_LOCKS_EXCLUDED(mutex_);

 private:
  struct SizeClass {
    std::vector<void*> idle;  // the last is taken next
    size_t used = 0;
    size_t unused = 0;  // least number of `idle` blocks since the last GiveBack
  };

  absl::Status AllocateOrGiveBack(size_t bytes, void*& memory) ABSL_LOCKS_EXCLUDED(mutex_);
  void* TakeIdle(size_t bytes) ABSL_LOCKS_EXCLUDED(mutex_);  // null: the driver is to be asked
  // Takes the next idle block to free; null: none.
  void* PopFor(Kept what) ABSL_LOCKS_EXCLUDED(mutex_);
  void PutBack(void* memory, size_t bytes) ABSL_LOCKS_EXCLUDED(mutex_);

  const MemoryDriver driver_;
  mutable absl::Mutex mutex_;
  std::map<size_t, SizeClass> classes_ ABSL_GUARDED_BY(mutex_);  // by size
};

}  // namespace latentd::device
