#include "core/base/process/memory_room.h"

#include <malloc.h>

#include <atomic>

#include "absl/strings/str_cat.h"
#include "core/base/errors/out_of_memory.h"
#include "core/base/process/memory_limit.h"

namespace latentd {
namespace {

constexpr int64_t kStaysFree = int64_t{16} << 20;

std::atomic<int64_t> taken_room = 0;

}  // namespace

absl::StatusOr<MemoryRoom> MemoryRoom::Take(int64_t bytes, absl::string_view what) {
  if (MeasureAvailableMemory().bytes - kStaysFree >= bytes) return MemoryRoom(bytes);
  malloc_trim(0);
  const AvailableMemory left = MeasureAvailableMemory();
  if (left.bytes - kStaysFree >= bytes) return MemoryRoom(bytes);
  return OutOfMemoryError(
      absl::StrCat(what, " needs ", bytes, " bytes of memory for a moment, and ", left.bytes,
                   " are left (", left.source, "), of which ", kStaysFree, " stay free"));
}

MemoryRoom::MemoryRoom(int64_t bytes) : bytes_(bytes) { taken_room += bytes; }

MemoryRoom::~MemoryRoom() { taken_room -= bytes_; }

int64_t MemoryRoom::taken() { return taken_room; }

}  // namespace latentd
