#include "tests/core/backends/heap_requests.h"

#include <malloc.h>

#include <atomic>
#include <cerrno>
#include <limits>

#include "tests/support/sanitized.h"

namespace latentd::testing {
namespace {

std::atomic<size_t> limit{std::numeric_limits<size_t>::max()};
std::atomic<int> requests{0};
std::atomic<size_t> largest_request{0};
std::atomic<int64_t> live_bytes{0}, peak_bytes{0};

bool IsCounting() {
  return limit.load(std::memory_order_relaxed) != std::numeric_limits<size_t>::max();
}

[[maybe_unused]] void Note(size_t bytes) {
  if (bytes < limit.load(std::memory_order_relaxed)) return;
  ++requests;
  if (bytes > largest_request) largest_request = bytes;
}

[[maybe_unused]] void* NoteGiven(void* memory) {
  if (!IsCounting()) return memory;
  const int64_t now = live_bytes += static_cast<int64_t>(malloc_usable_size(memory));
  for (int64_t peak = peak_bytes; now > peak && !peak_bytes.compare_exchange_weak(peak, now);) {
  }
  return memory;
}

[[maybe_unused]] void NoteFreed(void* memory) {
  if (IsCounting()) live_bytes -= static_cast<int64_t>(malloc_usable_size(memory));
}

}  // namespace

HeapRequests::HeapRequests(size_t at_least) {
  requests = 0;
  largest_request = 0;
  live_bytes = peak_bytes = 0;
  limit = at_least;
}
HeapRequests::~HeapRequests() { limit = std::numeric_limits<size_t>::max(); }

int HeapRequests::count() const { return requests; }
size_t HeapRequests::largest() const { return largest_request; }
size_t HeapRequests::peak() const { return static_cast<size_t>(peak_bytes.load()); }

#if defined(LATENTD_SANITIZED)
bool HeapRequests::Counted() { return false; }
#else
bool HeapRequests::Counted() { return true; }
#endif

}  // namespace latentd::testing

#if !defined(LATENTD_SANITIZED)
// glibc's own, under the names that it keeps for programs that replace malloc.
// NOLINTBEGIN(bugprone-reserved-identifier)
extern "C" {
void* __libc_malloc(size_t bytes);
void* __libc_calloc(size_t count, size_t bytes);
void* __libc_realloc(void* memory, size_t bytes);
void* __libc_memalign(size_t alignment, size_t bytes);
void __libc_free(void* memory);
// NOLINTEND(bugprone-reserved-identifier)

void* malloc(size_t bytes) {
  latentd::testing::Note(bytes);
  return latentd::testing::NoteGiven(__libc_malloc(bytes));
}
void* calloc(size_t count, size_t bytes) {
  latentd::testing::Note(count * bytes);
  return latentd::testing::NoteGiven(__libc_calloc(count, bytes));
}
void* realloc(void* memory, size_t bytes) {
  latentd::testing::Note(bytes);
  latentd::testing::NoteFreed(memory);
  return latentd::testing::NoteGiven(__libc_realloc(memory, bytes));
}
void* memalign(size_t alignment, size_t bytes) {
  latentd::testing::Note(bytes);
  return latentd::testing::NoteGiven(__libc_memalign(alignment, bytes));
}
void free(void* memory) {
  latentd::testing::NoteFreed(memory);
  __libc_free(memory);
}
void* aligned_alloc(size_t alignment, size_t bytes) { return memalign(alignment, bytes); }
int posix_memalign(void** memory, size_t alignment, size_t bytes) {
  *memory = memalign(alignment, bytes);
  return *memory == nullptr ? ENOMEM : 0;
}
}
#endif
