#include "tests/server/no_memory.h"

#include <atomic>
#include <cstdlib>
#include <limits>
#include <new>

#if defined(__SANITIZE_ADDRESS__) || defined(__SANITIZE_THREAD__)
#define LATENTD_SANITIZED 1
#elif defined(__has_feature)
#if __has_feature(address_sanitizer) || __has_feature(thread_sanitizer)
#define LATENTD_SANITIZED 1
#endif
#endif

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
