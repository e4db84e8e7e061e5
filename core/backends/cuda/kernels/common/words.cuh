// Elements moved as words, whatever they are.
#pragma once

#include <cstdint>

#include "core/backends/cuda/kernels/common/element.h"
#include "core/backends/cuda/kernels/common/launch.cuh"

namespace latentd::backends::cuda::kernels {

// Calls launch.operator()<Word>() for the word of so many bytes: 1, 2, 4, 8 or 16.
template <typename Function>
cudaError_t ForWord(int64_t bytes, const Function& launch) {
  switch (bytes) {
    case 16:
      return launch.template operator()<uint4>();
    case 8:
      return launch.template operator()<uint64_t>();
    case 4:
      return launch.template operator()<uint32_t>();
    case 2:
      return launch.template operator()<uint16_t>();
    default:
      return launch.template operator()<uint8_t>();
  }
}

// The widest words of which dense lines of so many bytes at `from` and `to` consist.
inline int64_t WordBytes(int64_t line_bytes, const void* from, const void* to) {
  int64_t bytes = 16;
  while (line_bytes % bytes != 0 || !Aligned(bytes, from, to)) bytes /= 2;
  return bytes;
}

}  // namespace latentd::backends::cuda::kernels
