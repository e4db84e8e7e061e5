#include "server/process/memory/heap_trim.h"

#include <malloc.h>

#include <algorithm>

#include "core/base/process/process_stat.h"
#include "server/process/memory/process_metrics.h"

namespace latentd::server::process {
namespace {

constexpr int64_t kWorthwhileBytes = int64_t{64} << 20;
// Since the last one left, or the first where one or another always leaves.
constexpr absl::Duration kPause = absl::Seconds(5), kLongestPause = absl::Seconds(30);

// Bytes that malloc has not given back, and resident ones that are not its: code, weights in files.
int64_t KeptBytes() {
  const struct mallinfo2 heap = mallinfo2();
  const auto allocated = static_cast<int64_t>(heap.uordblks + heap.hblkhd);
  return ResidentBytes().value_or(0) - allocated;
}

}  // namespace

bool HeapTrim::IsDue(absl::Time now, const Usage& usage) {
  if (usage.open_files < open_files_) {
    first_closed_ = std::min(first_closed_, now);
    last_closed_ = now;
  }
  open_files_ = usage.open_files;
  return (now - last_closed_ >= kPause || now - first_closed_ >= kLongestPause) &&
         usage.kept_bytes >= kept_bytes_ + kWorthwhileBytes;
}

void HeapTrim::Done(int64_t kept_bytes) {
  kept_bytes_ = kept_bytes;
  first_closed_ = last_closed_ = absl::InfiniteFuture();
}

void TrimHeapIfDue(HeapTrim& trim, absl::Time now) {
  if (!trim.IsDue(now, {CountOpenFiles().value_or(0), KeptBytes()})) return;
  malloc_trim(0);
  trim.Done(KeptBytes());
}

}  // namespace latentd::server::process
