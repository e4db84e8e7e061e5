// Memory for what is of many sizes and stays for long, such as weights, one behind the other: its
// own pages for each would waste a tenth of it.
//
// A heap lies in a range of addresses, backed by memory in pieces of one size: those that hold a
// block. So it wastes at most a piece, and the holes that freed blocks leave; later blocks fill
// these, lowest address first.
//
// Thread-safe.
#pragma once

#include <cstddef>
#include <cstdint>
#include <functional>
#include <map>
#include <memory>
#include <vector>

#include "absl/base/thread_annotations.h"
#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "absl/synchronization/mutex.h"

namespace latentd::device {

// As much as any kernel or library asks for.
inline constexpr size_t kHeapAlignment = 512;

// A range of addresses. The functions are called by one thread at a time, and own what they need.
struct Pieces {
  char* base = nullptr;  // as aligned as what is to lie there
  size_t count = 0;
  size_t bytes = 0;  // size of each piece
  // RESOURCE_EXHAUSTED with reason OUT_OF_MEMORY: there is no memory for the piece.
  std::function<absl::Status(size_t piece)> map;
  // Nothing lies in it any more. Does not fail.
  std::function<void(size_t piece)> unmap;
};

class Heap : public std::enable_shared_from_this<Heap> {
 public:
  // REQUIRES: no piece is mapped; they have a size that is a multiple of kHeapAlignment.
  explicit Heap(Pieces pieces);
  Heap(const Heap&) = delete;

  // `bytes` or a few more, with whatever is in them, aligned to kHeapAlignment. They go back with
  // the last copy, which keeps the heap alive; REQUIRES then that nothing uses them. Errors of
  // Pieces::map; RESOURCE_EXHAUSTED with reason OUT_OF_MEMORY: no addresses for so many. Throws
  // std::bad_alloc where the host has no memory. After an error everything is as before.
  absl::StatusOr<std::shared_ptr<void>> Take(size_t bytes) ABSL_LOCKS_EXCLUDED(mutex_);

  // Bytes of all taken blocks, and of the mapped pieces that hold them.
  size_t used_bytes() const ABSL_LOCKS_EXCLUDED(mutex_);
  size_t mapped_bytes() const ABSL_LOCKS_EXCLUDED(mutex_);

 private:
  using Blocks = std::map<size_t, size_t>;  // lengths by where they begin

  // Takes a block; returns where it begins.
  absl::StatusOr<size_t> TakeBlock(size_t bytes) ABSL_LOCKS_EXCLUDED(mutex_);
  void PutBack(size_t begin) ABSL_LOCKS_EXCLUDED(mutex_);
  // All pieces of the block, or none.
  absl::Status Join(size_t begin, size_t bytes) ABSL_EXCLUSIVE_LOCKS_REQUIRED(mutex_);
  absl::Status JoinPiece(size_t piece) ABSL_EXCLUSIVE_LOCKS_REQUIRED(mutex_);
  // Ends a block's use of the pieces [first, end); unmaps those that no block uses.
  void Leave(size_t first, size_t end) ABSL_EXCLUSIVE_LOCKS_REQUIRED(mutex_);
  size_t FirstPiece(size_t begin) const { return begin / pieces_.bytes; }
  size_t EndPiece(size_t end) const { return (end - 1) / pieces_.bytes + 1; }

  const Pieces pieces_;
  mutable absl::Mutex mutex_;
  // Together they are the whole range; no two free ones touch.
  Blocks free_ ABSL_GUARDED_BY(mutex_), used_ ABSL_GUARDED_BY(mutex_);
  std::vector<uint32_t> users_ ABSL_GUARDED_BY(mutex_);  // used blocks in each piece
};

}  // namespace latentd::device
