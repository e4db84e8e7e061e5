// From f32 to e4m3.
#pragma once

#include <cuda_fp8.h>

#include "core/backends/cuda/kernels/numbers.cuh"

namespace latentd::backends::cuda::kernels {

// x times `factor`, to nearest even; what is too large as 448 or -448, what is not finite as NaN.
__device__ inline F8E4M3 ToE4M3(float x, float factor) {
  constexpr uint8_t kNan = 0x7F;
  const uint8_t bits = __nv_cvt_float_to_fp8(x * factor, __NV_SATFINITE, __NV_E4M3);
  return {isfinite(x) ? bits : kNan};
}

}  // namespace latentd::backends::cuda::kernels
