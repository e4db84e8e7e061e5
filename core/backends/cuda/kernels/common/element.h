// The dtypes of elements in kernels.
#pragma once

#include <cstdint>

namespace latentd::backends::cuda::kernels {

// In the order of device::DType.
enum class Element : uint8_t { kF32, kF16, kBF16, kI64, kU8, kF8E4M3, kF8E5M2 };

constexpr int64_t BytesOf(Element element) {
  switch (element) {
    case Element::kF32:
      return 4;
    case Element::kF16:
    case Element::kBF16:
      return 2;
    case Element::kI64:
      return 8;
    case Element::kU8:
    case Element::kF8E4M3:
    case Element::kF8E5M2:
      break;
  }
  return 1;
}

// The most dimensions of a strided view.
inline constexpr int kMaxRank = 8;

}  // namespace latentd::backends::cuda::kernels
