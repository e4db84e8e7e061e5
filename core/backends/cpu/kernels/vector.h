// Vectors of kWidth floats, for the loops that the compiler does not turn into good vector code by
// itself: it would thread jumps through a clamp, or keep sums in memory.
#pragma once

#include "core/backends/cpu/kernels/instruction_set.h"

namespace latentd::backends::cpu::LATENTD_ISA {

// In memory of any alignment.
typedef float Vector __attribute__((vector_size(kWidth * sizeof(float)), aligned(4), may_alias));
typedef int32_t IntVector __attribute__((vector_size(kWidth * sizeof(float)), aligned(4)));

static inline Vector Load(const float* from) { return *reinterpret_cast<const Vector*>(from); }
static inline void Store(float* to, Vector value) { *reinterpret_cast<Vector*>(to) = value; }

static inline Vector Max(Vector a, Vector b) { return a < b ? b : a; }
static inline Vector Broadcast(float value) { return value - Vector{}; }

static inline float Sum(Vector values) {
  float sum = 0;
  for (int i = 0; i < kWidth; ++i) sum += values[i];
  return sum;
}
static inline float Largest(Vector values) {
  float largest = values[0];
  for (int i = 1; i < kWidth; ++i) largest = values[i] > largest ? values[i] : largest;
  return largest;
}

// How much of a vector a loop's body is to read and write.
struct Whole {};
struct Part {
  int64_t count;
};

static inline Vector Load(const float* from, Whole) { return Load(from); }
static inline void Store(float* to, Vector value, Whole) { Store(to, value); }

static inline Vector Load(const float* from, Part part) {
  float values[kWidth] = {};
  for (int64_t i = 0; i < part.count; ++i) values[i] = from[i];
  return Load(values);
}
static inline void Store(float* to, Vector value, Part part) {
  float values[kWidth];
  Store(values, value);
  for (int64_t i = 0; i < part.count; ++i) to[i] = values[i];
}

// Calls body(i, Whole()) for each whole vector of [0, size), then body(i, Part) for the rest.
template <typename Body>
static inline void ForEachVector(int64_t size, Body body) {
  int64_t i = 0;
  for (; i + kWidth <= size; i += kWidth) body(i, Whole());
  if (i < size) body(i, Part{size - i});
}

}  // namespace latentd::backends::cpu::LATENTD_ISA
