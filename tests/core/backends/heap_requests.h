// Counts the heap requests of the whole program that are at least as large as a limit, through a
// malloc of its own (heap_requests.cc). Does nothing under a sanitizer, which brings its own.
#pragma once

#include <cstddef>

namespace latentd::testing {

class HeapRequests {
 public:
  // Counts from here to its end, on all threads. One at a time.
  explicit HeapRequests(size_t at_least);
  ~HeapRequests();

  int count() const;
  size_t largest() const;
  // The most bytes that were allocated at a time, of what was allocated since the beginning: in
  // requests of any size, and as malloc rounds them up.
  size_t peak() const;

  // False where they cannot be counted.
  static bool Counted();
};

}  // namespace latentd::testing
