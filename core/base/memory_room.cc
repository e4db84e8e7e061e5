#include "core/base/memory_room.h"

#include <malloc.h>

#include "absl/strings/str_cat.h"
#include "core/base/memory_limit.h"
#include "core/base/out_of_memory.h"

namespace latentd {

absl::Status CheckMemoryRoom(int64_t bytes, absl::string_view what) {
  if (MeasureAvailableMemory().bytes >= bytes) return absl::OkStatus();
  malloc_trim(0);
  const AvailableMemory left = MeasureAvailableMemory();
  if (left.bytes >= bytes) return absl::OkStatus();
  return OutOfMemoryError(absl::StrCat(what, " needs ", bytes,
                                       " bytes of memory for a moment, and ", left.bytes,
                                       " are left (", left.source, ")"));
}

}  // namespace latentd
