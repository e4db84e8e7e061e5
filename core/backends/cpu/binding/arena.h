// The memory that the intermediates of all executables of one backend share, since one of them runs
// at a time: as large as the largest needs.
//
// A run holds runs() until its end. Leases come and go beside a run: what is mapped for the
// running executable's lease stays as it is.
//
// It is a range of addresses as long as it may ever become, reserved once, of which the beginning
// is mapped: it grows and shrinks without moving, so that addresses in it may be kept, and growing
// it disturbs no run. Thread-safe.
#pragma once

#include <cstddef>
#include <memory>
#include <set>

#include "absl/base/thread_annotations.h"
#include "absl/status/statusor.h"
#include "absl/synchronization/mutex.h"

namespace latentd::backends::cpu {

class Arena : public std::enable_shared_from_this<Arena> {
 public:
  // Addresses for `most` bytes or the machine's memory, whichever is less; 0: the latter. Where the
  // process's addresses are limited (ulimit -v): for at most half of those that are left, since
  // weights and threads need the other half; and for less than that if the system gives no more.
  // RESOURCE_EXHAUSTED, reason OUT_OF_MEMORY: not even for kLeast.
  static absl::StatusOr<std::shared_ptr<Arena>> Reserve(size_t most = 0);
  static constexpr size_t kLeast = size_t{16} << 20;
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
    absl::Mutex& runs() const { return arena_->runs_; }

   private:
    std::shared_ptr<Arena> arena_;
    size_t bytes_;
  };

  // RESOURCE_EXHAUSTED says how many bytes were wanted.
  absl::StatusOr<std::unique_ptr<Lease>> Take(size_t bytes);

  // The size that it can grow to.
  size_t reserved() const { return reserved_; }

  // The need of the largest lease.
  size_t bytes() const;

 private:
  Arena(char* base, size_t reserved) : base_(base), reserved_(reserved) {}
  void Release(size_t bytes);

  char* const base_;
  const size_t reserved_;
  absl::Mutex runs_;  // over the contents of the memory
  mutable absl::Mutex mutex_;
  std::multiset<size_t> leases_ ABSL_GUARDED_BY(mutex_);
  size_t mapped_ ABSL_GUARDED_BY(mutex_) = 0;  // bytes that may be read and written
};

}  // namespace latentd::backends::cpu
