#include "tests/core/image/refusing_heap.h"

#include <cerrno>
#include <limits>

#include "tests/support/sanitized.h"

namespace latentd::testing {
namespace {

thread_local size_t limit = std::numeric_limits<size_t>::max();

[[maybe_unused]] bool Refuses(size_t bytes) {
  if (bytes < limit) return false;
  errno = ENOMEM;
  return true;
}

}  // namespace

RefusingHeap::RefusingHeap(size_t at_least) { limit = at_least; }
RefusingHeap::~RefusingHeap() { limit = std::numeric_limits<size_t>::max(); }

#if defined(LATENTD_SANITIZED)
bool RefusingHeap::Works() { return false; }
#else
bool RefusingHeap::Works() { return true; }
#endif

}  // namespace latentd::testing

#if !defined(LATENTD_SANITIZED)
// glibc's own, under the names that it keeps for programs that replace malloc.
// NOLINTBEGIN(bugprone-reserved-identifier)
extern "C" {
void* __libc_malloc(size_t bytes);
void* __libc_calloc(size_t count, size_t bytes);
void* __libc_realloc(void* memory, size_t bytes);
// NOLINTEND(bugprone-reserved-identifier)

void* malloc(size_t bytes) {
  return latentd::testing::Refuses(bytes) ? nullptr : __libc_malloc(bytes);
}
void* calloc(size_t count, size_t bytes) {
  return latentd::testing::Refuses(count * bytes) ? nullptr : __libc_calloc(count, bytes);
}
void* realloc(void* memory, size_t bytes) {
  return latentd::testing::Refuses(bytes) ? nullptr : __libc_realloc(memory, bytes);
}
}
#endif
