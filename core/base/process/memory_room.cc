#include "core/base/process/memory_room.h"

#include <malloc.h>

#include <atomic>

#include "absl/strings/str_cat.h"
#include "core/base/errors/out_of_memory.h"
#include "core/base/process/memory_limit.h"

namespace latentd {
namespace {

constexpr int64_t kStaysFree = int64_t{16} << 20;

std::atomic<int64_t> taken_to_decode = 0, taken_to_encode = 0;

std::atomic<int64_t>& TakenFor(MemoryRoom::Purpose purpose) {
  return purpose == MemoryRoom::Purpose::kDecodeImage ? taken_to_decode : taken_to_encode;
}

}  // namespace

absl::StatusOr<MemoryRoom> MemoryRoom::Take(int64_t bytes, absl::string_view what,
                                            Purpose purpose) {
  if (MeasureAvailableMemory().bytes - kStaysFree >= bytes) return MemoryRoom(bytes, purpose);
  malloc_trim(0);
  const AvailableMemory left = MeasureAvailableMemory();
  if (left.bytes - kStaysFree >= bytes) return MemoryRoom(bytes, purpose);
  return OutOfMemoryError(
      absl::StrCat(what, " needs ", bytes, " bytes of memory for a moment, and ", left.bytes,
                   " are left (", left.source, "), of which ", kStaysFree, " stay free"));
}

MemoryRoom::MemoryRoom(int64_t bytes, Purpose purpose) : bytes_(bytes), purpose_(purpose) {
  TakenFor(purpose) += bytes;
}

MemoryRoom::~MemoryRoom() { TakenFor(purpose_) -= bytes_; }

int64_t MemoryRoom::taken(Purpose purpose) { return TakenFor(purpose); }

}  // namespace latentd
