// Strided copies, nearest upsampling and its phases.
#include "core/backends/cpu/kernels/instruction_set.h"
#include "core/backends/cpu/kernels/loops.h"

namespace latentd::backends::cpu::LATENTD_ISA {
namespace {

// Below this many bytes a second thread costs more than it brings.
constexpr int64_t kSerial = 32768;

template <typename T>
inline void CopyRow(T* __restrict to, int64_t stride_to, const T* __restrict from,
                    int64_t stride_from, int64_t size) {
  if (stride_to == 1 && stride_from == 1) {
    __builtin_memcpy(to, from, size * sizeof(T));
  } else if (stride_to == 1) {
    for (int64_t i = 0; i < size; ++i) to[i] = from[i * stride_from];
  } else {
    for (int64_t i = 0; i < size; ++i) to[i * stride_to] = from[i * stride_from];
  }
}

template <typename T>
void CopyElements(const LoopNest& loops, T* to, const T* from) {
  const int inner = loops.rank - 1;
  const int64_t size = loops.sizes[inner], outer = OuterCount(loops);
  // A single long row is cut into pieces that threads share.
  constexpr int64_t kPiece = kSerial / sizeof(T);
  const int64_t pieces = outer == 1 ? (size + kPiece - 1) / kPiece : 1;
  const int64_t stride_to = loops.strides[0][inner], stride_from = loops.strides[1][inner];
#pragma omp parallel for schedule(static) if (outer * size > kPiece)
  for (int64_t i = 0; i < outer * pieces; ++i) {
    const Offsets at = OffsetsOf(loops, i / pieces);
    const int64_t begin = i % pieces * kPiece;
    const int64_t end = pieces == 1 || begin + kPiece > size ? size : begin + kPiece;
    CopyRow(to + at.of[0] + begin * stride_to, stride_to, from + at.of[1] + begin * stride_from,
            stride_from, end - begin);
  }
}

template <typename T>
void CopyAs(const LoopNest& loops, char* to, const char* from) {
  CopyElements(loops, reinterpret_cast<T*>(to), reinterpret_cast<const T*>(from));
}

template <typename T>
void UpsampleElements(const UpsampleArguments& a) {
#pragma omp parallel for schedule(static) if (a.outer * a.to_height * a.to_width * a.inner > \
                                              kSerial / 4)
  for (int64_t i = 0; i < a.outer * a.to_height; ++i) {
    const int64_t row = i / a.to_height, y = i % a.to_height;
    const T* from = static_cast<const T*>(a.x) +
                    (row * a.height + y * a.height / a.to_height) * a.width * a.inner;
    T* to = static_cast<T*>(a.y) + i * a.to_width * a.inner;
    for (int64_t x = 0; x < a.to_width; ++x) {
      const T* pixel = from + x * a.width / a.to_width * a.inner;
      for (int64_t c = 0; c < a.inner; ++c) to[x * a.inner + c] = pixel[c];
    }
  }
}

}  // namespace

void Copy(const LoopNest& loops, int64_t element_bytes, char* to, const char* from) {
  switch (element_bytes) {
    case 1:
      return CopyAs<uint8_t>(loops, to, from);
    case 2:
      return CopyAs<uint16_t>(loops, to, from);
    case 4:
      return CopyAs<uint32_t>(loops, to, from);
    default:
      return CopyAs<uint64_t>(loops, to, from);
  }
}

void UpsampleNearest(const UpsampleArguments& a) {
  a.element_bytes == 2 ? UpsampleElements<uint16_t>(a) : UpsampleElements<uint32_t>(a);
}

void Interleave(const InterleaveArguments& a) {
  const int64_t size = a.width * a.pixel_bytes;
#pragma omp parallel for schedule(static) if (a.rows * size > kSerial / 4)
  for (int64_t i = 0; i < 2 * a.rows; ++i) {
    const char* even = a.phases[i % 2 * 2] + i / 2 * size;
    const char* odd = a.phases[i % 2 * 2 + 1] + i / 2 * size;
    char* to = a.y + i * 2 * size;
    for (int64_t x = 0; x < size; x += a.pixel_bytes, to += 2 * a.pixel_bytes) {
      __builtin_memcpy(to, even + x, a.pixel_bytes);
      __builtin_memcpy(to + a.pixel_bytes, odd + x, a.pixel_bytes);
    }
  }
}

}  // namespace latentd::backends::cpu::LATENTD_ISA
