// Elements of one float type into another, to nearest even, and into pixels.
#include "core/backends/cpu/kernels/instruction_set.h"
#include "core/backends/cpu/kernels/vector.h"

namespace latentd::backends::cpu::LATENTD_ISA {
namespace {

// Below this many elements a second thread costs more than it brings.
constexpr int64_t kSerial = 16384;

template <typename From, typename To>
void Map(const From* __restrict x, To* __restrict y, int64_t size) {
#pragma omp parallel for schedule(static) if (size > kSerial)
  for (int64_t begin = 0; begin < size; begin += kSerial) {
    const int64_t count = begin + kSerial < size ? kSerial : size - begin;
    ForEachVector(count, [&](int64_t i, auto part) {
      Store(y + begin + i, Load(x + begin + i, part), part);
    });
  }
}

template <typename From>
void MapTo(Element to, const From* x, void* y, int64_t size) {
  switch (to) {
    case Element::kF32:
      return Map(x, static_cast<float*>(y), size);
    case Element::kBF16:
      return Map(x, static_cast<Bf16*>(y), size);
    case Element::kF16:
      return Map(x, static_cast<F16*>(y), size);
  }
}

// Straight loops, which compilers turn into vector code, but for what rounds in one instruction.
template <typename T>
void PixelsOf(const T* __restrict x, uint8_t* __restrict y, int64_t size) {
#pragma omp parallel for schedule(static) if (size > kSerial)
  for (int64_t begin = 0; begin < size; begin += kSerial) {
    const int64_t end = begin + kSerial < size ? begin + kSerial : size;
    for (int64_t i = begin; i < end; ++i) {
      float unit = Float(x[i]) * 0.5f + 0.5f;
      unit = unit > 0 ? unit : 0;  // NaN too
      unit = unit < 1 ? unit : 1;
      y[i] = static_cast<uint8_t>(static_cast<int32_t>(__builtin_nearbyintf(unit * 255)));
    }
  }
}

}  // namespace

void ToPixels(Element element, const void* x, uint8_t* y, int64_t size) {
  element == Element::kBF16 ? PixelsOf(static_cast<const Bf16*>(x), y, size)
                            : PixelsOf(static_cast<const float*>(x), y, size);
}

void Convert(Element from, Element to, const void* x, void* y, int64_t size) {
  switch (from) {
    case Element::kF32:
      return MapTo(to, static_cast<const float*>(x), y, size);
    case Element::kBF16:
      return MapTo(to, static_cast<const Bf16*>(x), y, size);
    case Element::kF16:
      return MapTo(to, static_cast<const F16*>(x), y, size);
  }
}

}  // namespace latentd::backends::cpu::LATENTD_ISA
