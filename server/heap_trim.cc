#include "server/heap_trim.h"

#include <malloc.h>

#include <algorithm>

#include "server/process_metrics.h"

namespace latentd::server {
namespace {

constexpr int64_t kWorthwhileBytes = int64_t{64} << 20;
// Since the last one left, or the first where one or another always leaves.
constexpr absl::Duration kPause = absl::Seconds(5), kLongestPause = absl::Seconds(30);

}  // namespace

bool HeapTrim::IsDue(absl::Time now, const Usage& usage) {
  if (usage.open_files < open_files_) {
    first_closed_ = std::min(first_closed_, now);
    last_closed_ = now;
  }
  open_files_ = usage.open_files;
  return (now - last_closed_ >= kPause || now - first_closed_ >= kLongestPause) &&
         usage.resident_bytes >= resident_bytes_ + kWorthwhileBytes;
}

void HeapTrim::Done(int64_t resident_bytes) {
  resident_bytes_ = resident_bytes;
  first_closed_ = last_closed_ = absl::InfiniteFuture();
}

void TrimHeapIfDue(HeapTrim& trim, absl::Time now) {
  if (!trim.IsDue(now, {CountOpenFiles().value_or(0), ResidentBytes().value_or(0)})) return;
  malloc_trim(0);
  trim.Done(ResidentBytes().value_or(0));
}

}  // namespace latentd::server
