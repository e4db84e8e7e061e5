// Functions of one and two operands, element by element.
#include "core/backends/cpu/kernels/instruction_set.h"
#include "core/backends/cpu/kernels/loops.h"
#include "core/backends/cpu/kernels/vector_math.h"

namespace latentd::backends::cpu::LATENTD_ISA {
namespace {

// Below this many elements a second thread costs more than it brings.
constexpr int64_t kSerial = 8192;

template <Vector (*function)(Vector)>
void Map(const float* __restrict x, float* __restrict y, int64_t size) {
#pragma omp parallel for schedule(static) if (size > kSerial)
  for (int64_t begin = 0; begin < size; begin += kSerial) {
    const int64_t count = begin + kSerial < size ? kSerial : size - begin;
    ForEachVector(count, [&](int64_t i, auto part) {
      Store(y + begin + i, function(Load(x + begin + i, part)), part);
    });
  }
}

inline float Plus(float a, float b) { return a + b; }
inline float Minus(float a, float b) { return a - b; }
inline float Times(float a, float b) { return a * b; }
inline float Over(float a, float b) { return a / b; }

// The innermost loop; `y` has stride 1 and may be `a` or `b`.
template <float (*function)(float, float)>
inline void CombineRow(float* y, const float* a, int64_t stride_a, const float* b, int64_t stride_b,
                       int64_t size) {
  if (stride_a == 1 && stride_b == 1) {
#pragma omp simd
    for (int64_t i = 0; i < size; ++i) y[i] = function(a[i], b[i]);
  } else if (stride_a == 1 && stride_b == 0) {
    const float scalar = b[0];
#pragma omp simd
    for (int64_t i = 0; i < size; ++i) y[i] = function(a[i], scalar);
  } else if (stride_a == 0 && stride_b == 1) {
    const float scalar = a[0];
#pragma omp simd
    for (int64_t i = 0; i < size; ++i) y[i] = function(scalar, b[i]);
  } else {
    for (int64_t i = 0; i < size; ++i) y[i] = function(a[i * stride_a], b[i * stride_b]);
  }
}

template <float (*function)(float, float)>
void Combine(const LoopNest& loops, float* y, const float* a, const float* b) {
  const int inner = loops.rank - 1;
  const int64_t size = loops.sizes[inner];
  const int64_t outer = OuterCount(loops);
  // A single long row is cut into pieces that threads share.
  const int64_t pieces = outer == 1 ? (size + kSerial - 1) / kSerial : 1;
#pragma omp parallel for schedule(static) if (outer * size > kSerial)
  for (int64_t i = 0; i < outer * pieces; ++i) {
    const Offsets at = OffsetsOf(loops, i / pieces);
    const int64_t begin = i % pieces * kSerial;
    const int64_t end = pieces == 1 || begin + kSerial > size ? size : begin + kSerial;
    const int64_t stride_a = loops.strides[1][inner], stride_b = loops.strides[2][inner];
    CombineRow<function>(y + at.of[0] + begin, a + at.of[1] + begin * stride_a, stride_a,
                         b + at.of[2] + begin * stride_b, stride_b, end - begin);
  }
}

}  // namespace

void Unary(UnaryFunction function, const float* x, float* y, int64_t size) {
  switch (function) {
    case UnaryFunction::kSilu:
      return Map<Silu>(x, y, size);
    case UnaryFunction::kGelu:
      return Map<Gelu>(x, y, size);
    case UnaryFunction::kQuickGelu:
      return Map<QuickGelu>(x, y, size);
    case UnaryFunction::kRelu:
      return Map<Relu>(x, y, size);
    case UnaryFunction::kTanh:
      return Map<Tanh>(x, y, size);
  }
}

void Geglu(const float* x, float* y, int64_t rows, int64_t size) {
#pragma omp parallel for schedule(static) if (rows * size > kSerial)
  for (int64_t row = 0; row < rows; ++row) {
    const float* __restrict from = x + row * 2 * size;
    const float* __restrict gate = from + size;
    float* __restrict to = y + row * size;
    ForEachVector(size, [&](int64_t i, auto part) {
      Store(to + i, Load(from + i, part) * Gelu(Load(gate + i, part)), part);
    });
  }
}

void Binary(BinaryFunction function, const LoopNest& loops, float* y, const float* a,
            const float* b) {
  switch (function) {
    case BinaryFunction::kAdd:
      return Combine<Plus>(loops, y, a, b);
    case BinaryFunction::kSub:
      return Combine<Minus>(loops, y, a, b);
    case BinaryFunction::kMul:
      return Combine<Times>(loops, y, a, b);
    case BinaryFunction::kDiv:
      return Combine<Over>(loops, y, a, b);
  }
}

}  // namespace latentd::backends::cpu::LATENTD_ISA
