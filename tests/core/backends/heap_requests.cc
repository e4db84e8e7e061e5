#include "tests/core/backends/heap_requests.h"

#include <atomic>
#include <cerrno>
#include <limits>

#include "tests/support/sanitized.h"

namespace latentd::testing {
namespace {

std::atomic<size_t> limit{std::numeric_limits<size_t>::max()};
std::atomic<int> requests{0};
std::atomic<size_t> largest_request{0};

[[maybe_unused]] void Note(size_t bytes) {
  if (bytes < limit.load(std::memory_order_relaxed)) return;
  ++requests;
  if (bytes > largest_request) largest_request = bytes;
}

}  // namespace

HeapRequests::HeapRequests(size_t at_least) {
  requests = 0;
  largest_request = 0;
  limit = at_least;
}
HeapRequests::~HeapRequests() { limit = std::numeric_limits<size_t>::max(); }

int HeapRequests::count() const { return requests; }
size_t HeapRequests::largest() const { return largest_request; }

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
// NOLINTEND(bugprone-reserved-identifier)

void* malloc(size_t bytes) {
  latentd::testing::Note(bytes);
  return __libc_malloc(bytes);
}
void* calloc(size_t count, size_t bytes) {
  latentd::testing::Note(count * bytes);
  return __libc_calloc(count, bytes);
}
void* realloc(void* memory, size_t bytes) {
  latentd::testing::Note(bytes);
  return __libc_realloc(memory, bytes);
}
void* memalign(size_t alignment, size_t bytes) {
  latentd::testing::Note(bytes);
  return __libc_memalign(alignment, bytes);
}
void* aligned_alloc(size_t alignment, size_t bytes) { return memalign(alignment, bytes); }
int posix_memalign(void** memory, size_t alignment, size_t bytes) {
  *memory = memalign(alignment, bytes);
  return *memory == nullptr ? ENOMEM : 0;
}
}
#endif
