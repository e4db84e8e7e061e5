#include "tests/server/no_memory.h"

#include <atomic>
#include <cstdlib>
#include <limits>
#include <new>

#include "tests/support/sanitized.h"

namespace latentd::testing {
namespace {

std::atomic<size_t> refused_bytes{std::numeric_limits<size_t>::max()};

}  // namespace

NoMemoryFrom::NoMemoryFrom(size_t bytes) { refused_bytes = bytes; }
NoMemoryFrom::~NoMemoryFrom() { refused_bytes = std::numeric_limits<size_t>::max(); }

#if defined(LATENTD_SANITIZED)
bool NoMemoryFrom::Works() { return false; }
#else
bool NoMemoryFrom::Works() { return true; }
#endif

}  // namespace latentd::testing

#if !defined(LATENTD_SANITIZED)
void* operator new(size_t bytes) {
  void* memory = bytes < latentd::testing::refused_bytes ? std::malloc(bytes) : nullptr;
  if (memory == nullptr) throw std::bad_alloc();
  return memory;
}
void operator delete(void* memory) noexcept { std::free(memory); }
void operator delete(void* memory, size_t) noexcept { std::free(memory); }
#endif
