// Iteration over the rows (innermost loops) of a LoopNest.
#pragma once

#include "core/backends/cpu/kernels/instruction_set.h"

namespace latentd::backends::cpu::LATENTD_ISA {

// Offsets in elements, one for each operand.
struct Offsets {
  int64_t of[3];
};

// How many rows there are.
static inline int64_t OuterCount(const LoopNest& loops) {
  int64_t count = 1;
  for (int d = 0; d + 1 < loops.rank; ++d) count *= loops.sizes[d];
  return count;
}

static inline Offsets OffsetsOf(const LoopNest& loops, int64_t row) {
  Offsets offsets = {{0, 0, 0}};
  for (int d = loops.rank - 2; d >= 0; --d) {
    const int64_t index = row % loops.sizes[d];
    row /= loops.sizes[d];
    for (int i = 0; i < 3; ++i) offsets.of[i] += index * loops.strides[i][d];
  }
  return offsets;
}

}  // namespace latentd::backends::cpu::LATENTD_ISA
