// Vectors of kWidth floats, from and to memory of f32, bf16 or f16, for the loops that the compiler
// does not turn into good vector code by itself: it would thread jumps through a clamp, or keep
// sums in memory.
#pragma once

#if defined(__AVX2__)
#include <immintrin.h>
#endif

#include "core/backends/cpu/kernels/instruction_set.h"

namespace latentd::backends::cpu::LATENTD_ISA {

// In memory of any alignment.
typedef float Vector __attribute__((vector_size(kWidth * sizeof(float)), aligned(4), may_alias));
typedef int32_t IntVector __attribute__((vector_size(kWidth * sizeof(float)), aligned(4)));

typedef uint32_t BitVector __attribute__((vector_size(kWidth * sizeof(float)), aligned(4)));
typedef uint16_t HalfVector __attribute__((vector_size(kWidth * 2), aligned(2), may_alias));

// Elements of two bytes, as they lie in memory.
struct Bf16 {
  uint16_t bits;
};
struct F16 {
  uint16_t bits;
};

static inline Vector Max(Vector a, Vector b) { return a < b ? b : a; }
static inline Vector Broadcast(float value) { return value - Vector{}; }
static inline Vector AsFloats(BitVector bits) { return __builtin_bit_cast(Vector, bits); }
static inline BitVector AsBits(Vector value) { return __builtin_bit_cast(BitVector, value); }

static inline Vector Load(const float* from) { return *reinterpret_cast<const Vector*>(from); }
static inline void Store(float* to, Vector value) { *reinterpret_cast<Vector*>(to) = value; }

// By name, since the compiler makes several instructions of its own conversions.
static inline BitVector LoadHalves(const void* from) {
#if defined(__AVX512F__)
  const __m256i halves = _mm256_loadu_si256(static_cast<const __m256i*>(from));
  return __builtin_bit_cast(BitVector, _mm512_cvtepu16_epi32(halves));
#elif defined(__AVX2__)
  const __m128i halves = _mm_loadu_si128(static_cast<const __m128i*>(from));
  return __builtin_bit_cast(BitVector, _mm256_cvtepu16_epi32(halves));
#else
  return __builtin_convertvector(*reinterpret_cast<const HalfVector*>(from), BitVector);
#endif
}
static inline void StoreHalves(void* to, BitVector bits) {
#if defined(__AVX512F__)
  const __m256i halves = _mm512_cvtepi32_epi16(__builtin_bit_cast(__m512i, bits));
  _mm256_storeu_si256(static_cast<__m256i*>(to), halves);
#else
  *reinterpret_cast<HalfVector*>(to) = __builtin_convertvector(bits, HalfVector);
#endif
}

static inline Vector Load(const Bf16* from) { return AsFloats(LoadHalves(from) << 16); }
static inline void Store(Bf16* to, Vector value) {
  const BitVector bits = AsBits(value);
  const BitVector rounded = (bits + 0x7fff + ((bits >> 16) & 1)) >> 16;
  StoreHalves(to, value != value ? BitVector{} + 0x7fc0 : rounded);
}

// The exponents of f16 are 112 smaller, which the multiplication corrects for subnormals too.
static inline Vector Load(const F16* from) {
  const BitVector half = LoadHalves(from);
  const BitVector size = (half & 0x7fff) << 13;
  const BitVector finite = AsBits(AsFloats(size) * 0x1p112f);
  const BitVector wide = size >= 0x0f800000 ? size | 0x7f800000 : finite;
  return AsFloats(wide | (half & 0x8000) << 16);
}
static inline void Store(F16* to, Vector value) {
  const BitVector bits = AsBits(value), size = bits & 0x7fffffff;
  // A mantissa that rounds up carries into the exponent, which is what should happen.
  BitVector half = (size - 0x38000000 + 0xfff + ((size >> 13) & 1)) >> 13;
  half = size >= 0x477ff000 ? BitVector{} + 0x7c00 : half;
  // Subnormals are multiples of 2^-24, the last bit of 0.5 as a float.
  half = size < 0x38800000 ? AsBits(AsFloats(size) + 0.5f) - 0x3f000000 : half;
  half = size > 0x7f800000 ? BitVector{} + 0x7e00 : half;
  StoreHalves(to, half | (bits >> 16 & 0x8000));
}

// Single elements.
static inline float Float(float value) { return value; }
static inline float Float(Bf16 value) {
  return __builtin_bit_cast(float, static_cast<uint32_t>(value.bits) << 16);
}
static inline void Assign(float* to, float value) { *to = value; }
static inline void Assign(Bf16* to, float value) {
  const uint32_t bits = __builtin_bit_cast(uint32_t, value);
  const uint32_t rounded = (bits + 0x7fff + ((bits >> 16) & 1)) >> 16;
  to->bits = static_cast<uint16_t>((bits & 0x7fffffff) > 0x7f800000 ? 0x7fc0 : rounded);
}

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

template <typename T>
static inline Vector Load(const T* from, Whole) {
  return Load(from);
}
template <typename T>
static inline void Store(T* to, Vector value, Whole) {
  Store(to, value);
}

template <typename T>
static inline Vector Load(const T* from, Part part) {
  T values[kWidth] = {};
  for (int64_t i = 0; i < part.count; ++i) values[i] = from[i];
  return Load(values);
}
template <typename T>
static inline void Store(T* to, Vector value, Part part) {
  T values[kWidth];
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
