// Functions of one and two operands, element by element.
#include "core/backends/cpu/kernels/instruction_set.h"
#include "core/backends/cpu/kernels/loops.h"
#include "core/backends/cpu/kernels/vector_math.h"

namespace latentd::backends::cpu::LATENTD_ISA {
namespace {

// Below this many elements a second thread costs more than it brings.
constexpr int64_t kSerial = 8192;

template <Vector (*function)(Vector), typename T>
void Map(const T* __restrict x, T* __restrict y, int64_t size) {
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
template <float (*function)(float, float), typename T>
inline void CombineRow(T* y, const T* a, int64_t stride_a, const T* b, int64_t stride_b,
                       int64_t size) {
  if (stride_a == 1 && stride_b == 1) {
#pragma omp simd
    for (int64_t i = 0; i < size; ++i) Assign(y + i, function(Float(a[i]), Float(b[i])));
  } else if (stride_a == 1 && stride_b == 0) {
    const float scalar = Float(b[0]);
#pragma omp simd
    for (int64_t i = 0; i < size; ++i) Assign(y + i, function(Float(a[i]), scalar));
  } else if (stride_a == 0 && stride_b == 1) {
    const float scalar = Float(a[0]);
#pragma omp simd
    for (int64_t i = 0; i < size; ++i) Assign(y + i, function(scalar, Float(b[i])));
  } else {
    for (int64_t i = 0; i < size; ++i) {
      Assign(y + i, function(Float(a[i * stride_a]), Float(b[i * stride_b])));
    }
  }
}

template <float (*function)(float, float), typename T>
void Combine(const LoopNest& loops, T* y, const T* a, const T* b) {
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

template <typename T>
void UnaryOf(UnaryFunction function, const void* x, void* y, int64_t size) {
  const T* from = static_cast<const T*>(x);
  T* to = static_cast<T*>(y);
  switch (function) {
    case UnaryFunction::kSilu:
      return Map<Silu>(from, to, size);
    case UnaryFunction::kGelu:
      return Map<Gelu>(from, to, size);
    case UnaryFunction::kQuickGelu:
      return Map<QuickGelu>(from, to, size);
    case UnaryFunction::kRelu:
      return Map<Relu>(from, to, size);
    case UnaryFunction::kTanh:
      return Map<Tanh>(from, to, size);
    case UnaryFunction::kExp:
      return Map<ExactExp>(from, to, size);
  }
}

template <typename T>
void ClampOf(const T* __restrict x, T* __restrict y, int64_t size, float min, float max) {
  const Vector low = Broadcast(min), high = Broadcast(max);
#pragma omp parallel for schedule(static) if (size > kSerial)
  for (int64_t begin = 0; begin < size; begin += kSerial) {
    const int64_t count = begin + kSerial < size ? kSerial : size - begin;
    ForEachVector(count, [&](int64_t i, auto part) {
      Vector value = Load(x + begin + i, part);
      value = value < low ? low : value;
      Store(y + begin + i, value > high ? high : value, part);
    });
  }
}

template <typename T>
void GegluOf(const T* x, T* y, int64_t rows, int64_t size) {
#pragma omp parallel for schedule(static) if (rows * size > kSerial)
  for (int64_t row = 0; row < rows; ++row) {
    const T* __restrict from = x + row * 2 * size;
    const T* __restrict gate = from + size;
    T* __restrict to = y + row * size;
    ForEachVector(size, [&](int64_t i, auto part) {
      Store(to + i, Load(from + i, part) * Gelu(Load(gate + i, part)), part);
    });
  }
}

template <typename T>
void BinaryOf(BinaryFunction function, const LoopNest& loops, void* y, const void* a,
              const void* b) {
  T* to = static_cast<T*>(y);
  const T* left = static_cast<const T*>(a);
  const T* right = static_cast<const T*>(b);
  switch (function) {
    case BinaryFunction::kAdd:
      return Combine<Plus>(loops, to, left, right);
    case BinaryFunction::kSub:
      return Combine<Minus>(loops, to, left, right);
    case BinaryFunction::kMul:
      return Combine<Times>(loops, to, left, right);
    case BinaryFunction::kDiv:
      return Combine<Over>(loops, to, left, right);
  }
}

}  // namespace

void Unary(UnaryFunction function, Element element, const void* x, void* y, int64_t size) {
  const bool low = element == Element::kBF16;
  return low ? UnaryOf<Bf16>(function, x, y, size) : UnaryOf<float>(function, x, y, size);
}

void Clamp(Element element, const void* x, void* y, int64_t size, float min, float max) {
  element == Element::kBF16
      ? ClampOf(static_cast<const Bf16*>(x), static_cast<Bf16*>(y), size, min, max)
      : ClampOf(static_cast<const float*>(x), static_cast<float*>(y), size, min, max);
}

void Geglu(Element element, const void* x, void* y, int64_t rows, int64_t size) {
  element == Element::kBF16
      ? GegluOf(static_cast<const Bf16*>(x), static_cast<Bf16*>(y), rows, size)
      : GegluOf(static_cast<const float*>(x), static_cast<float*>(y), rows, size);
}

void Binary(BinaryFunction function, Element element, const LoopNest& loops, void* y, const void* a,
            const void* b) {
  const bool low = element == Element::kBF16;
  return low ? BinaryOf<Bf16>(function, loops, y, a, b) : BinaryOf<float>(function, loops, y, a, b);
}

}  // namespace latentd::backends::cpu::LATENTD_ISA
