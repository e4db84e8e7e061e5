#include "tests/server/no_memory.h"

#include <atomic>
#include <cstdlib>
#include <limits>
#include <new>
#include <utility>

#include "tests/support/sanitized.h"

namespace latentd::testing {
namespace {

std::atomic<size_t> refused_bytes{std::numeric_limits<size_t>::max()};
std::atomic<int> given_before = 0;
thread_local int given_first = 0, refused_next = 0;

#if !defined(LATENTD_SANITIZED)
bool IsRefused(size_t bytes) {
  if (refused_next > 0 && given_first-- <= 0) {
    --refused_next;
    return true;
  }
  return bytes >= refused_bytes && given_before-- <= 0;
}
#endif

}  // namespace

NoMemoryFrom::NoMemoryFrom(size_t bytes, int before) {
  given_before = before;
  refused_bytes = bytes;
}
NoMemoryFrom::~NoMemoryFrom() { refused_bytes = std::numeric_limits<size_t>::max(); }

#if defined(LATENTD_SANITIZED)
bool NoMemoryFrom::Works() { return false; }
#else
bool NoMemoryFrom::Works() { return true; }
#endif

int RefuseNext(int count, int before) {
  given_first = before;
  return std::exchange(refused_next, count);
}

}  // namespace latentd::testing

#if !defined(LATENTD_SANITIZED)
void* operator new(size_t bytes) {
  void* memory = latentd::testing::IsRefused(bytes) ? nullptr : std::malloc(bytes);
  if (memory == nullptr) throw std::bad_alloc();
  return memory;
}
void operator delete(void* memory) noexcept { std::free(memory); }
void operator delete(void* memory, size_t) noexcept { std::free(memory); }
#endif
