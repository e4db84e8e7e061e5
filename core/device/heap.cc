#include "core/device/heap.h"

#include <algorithm>
#include <iterator>
#include <utility>

#include "absl/cleanup/cleanup.h"
#include "absl/strings/str_cat.h"
#include "core/base/alignment.h"
#include "core/base/errors/out_of_memory.h"
#include "core/base/errors/status_macros.h"

namespace latentd::device {

Heap::Heap(Pieces pieces)
    : pieces_(std::move(pieces)),
      free_({{0, pieces_.count * pieces_.bytes}}),
      users_(pieces_.count) {}

absl::StatusOr<std::shared_ptr<void>> Heap::Take(size_t bytes) {
  ASSIGN_OR_RETURN(const size_t begin, TakeBlock(bytes));
  // Should there be no memory for the owner, its deleter runs at once.
  return std::shared_ptr<void>(pieces_.base + begin,
                               [heap = shared_from_this(), begin](void*) { heap->PutBack(begin); });
}

absl::StatusOr<size_t> Heap::TakeBlock(size_t bytes) {
  const auto none = [bytes] {
    return OutOfMemoryError(absl::StrCat("no addresses left for ", bytes, " bytes"));
  };
  if (bytes > pieces_.count * pieces_.bytes) return none();
  bytes = RoundUp(std::max<size_t>(bytes, 1), kHeapAlignment);
  absl::MutexLock lock(&mutex_);
  const auto found = std::find_if(free_.begin(), free_.end(),
                                  [bytes](const auto& block) { return block.second >= bytes; });
  if (found == free_.end()) return none();
  const size_t begin = found->first;
  const auto used = used_.emplace(begin, bytes).first;
  absl::Cleanup not_taken = [&] {
    mutex_.AssertHeld();
    used_.erase(used);
  };
  RETURN_IF_ERROR(Join(begin, bytes));
  std::move(not_taken).Cancel();
  Blocks::node_type rest = free_.extract(found);
  if (rest.mapped() > bytes) {
    rest.key() += bytes;
    rest.mapped() -= bytes;
    free_.insert(std::move(rest));
  }
  return begin;
}

// Asks for no memory.
void Heap::PutBack(size_t begin) {
  absl::MutexLock lock(&mutex_);
  Blocks::node_type block = used_.extract(begin);
  size_t& bytes = block.mapped();
  Leave(FirstPiece(begin), EndPiece(begin + bytes));
  const auto next = free_.lower_bound(begin);
  const auto before = next == free_.begin() ? free_.end() : std::prev(next);
  const bool touches_before = before != free_.end() && before->first + before->second == begin;
  if (next != free_.end() && next->first == begin + bytes) {
    bytes += next->second;
    free_.erase(next);
  }
  if (touches_before) {
    before->second += bytes;
  } else {
    free_.insert(std::move(block));
  }
}

absl::Status Heap::Join(size_t begin, size_t bytes) {
  const size_t first = FirstPiece(begin);
  size_t piece = first;
  absl::Cleanup not_joined = [&] {
    mutex_.AssertHeld();
    Leave(first, piece);
  };
  for (; piece < EndPiece(begin + bytes); ++piece) RETURN_IF_ERROR(JoinPiece(piece));
  std::move(not_joined).Cancel();
  return absl::OkStatus();
}

absl::Status Heap::JoinPiece(size_t piece) {
  if (users_[piece] == 0) RETURN_IF_ERROR(pieces_.map(piece));
  ++users_[piece];
  return absl::OkStatus();
}

void Heap::Leave(size_t first, size_t end) {
  for (size_t piece = first; piece < end; ++piece) {
    if (--users_[piece] == 0) pieces_.unmap(piece);
  }
}

size_t Heap::used_bytes() const {
  absl::MutexLock lock(&mutex_);
  size_t sum = 0;
  for (const auto& [begin, bytes] : used_) sum += bytes;
  return sum;
}

size_t Heap::mapped_bytes() const {
  absl::MutexLock lock(&mutex_);
  const auto mapped = std::count_if(users_.begin(), users_.end(), [](auto n) { return n > 0; });
  return static_cast<size_t>(mapped) * pieces_.bytes;
}

}  // namespace latentd::device
