// An operator new of the whole program that has no memory while a test says so (no_memory.cc).
#pragma once

#include <cstddef>

namespace latentd::testing {

// While it lives, there is none for anything as large, on all threads, once it was given `before`
// times. One at a time.
class NoMemoryFrom {
 public:
  explicit NoMemoryFrom(size_t bytes, int before = 0);
  ~NoMemoryFrom();

  // False under a sanitizer, which brings its own operator new.
  static bool Works();
};

// There is none for what the calling thread asks for next, so often, once it was given `before`
// times. Returns how many refusals of the call before are still to come. REQUIRES:
// NoMemoryFrom::Works().
int RefuseNext(int count, int before = 0);

}  // namespace latentd::testing
