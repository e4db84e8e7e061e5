// A heap that refuses large requests for a while, to see what a library does without memory.
#pragma once

#include <cstddef>

namespace latentd::testing {

// While it lives, malloc, calloc and realloc give this thread no block of at least that many bytes.
class RefusingHeap {
 public:
  explicit RefusingHeap(size_t at_least);
  ~RefusingHeap();
  RefusingHeap(const RefusingHeap&) = delete;
  RefusingHeap& operator=(const RefusingHeap&) = delete;

  // False under sanitizers, which bring their own heap.
  static bool Works();
};

}  // namespace latentd::testing
