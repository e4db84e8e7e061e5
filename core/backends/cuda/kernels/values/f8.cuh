// From f32 to e4m3.
#pragma once

#include <cuda_fp8.h>

#include "core/backends/cuda/kernels/common/numbers.cuh"

namespace latentd::backends::cuda::kernels {

// Each to nearest even; what is too large as 448 or -448, infinite or not, and NaN as NaN. One
// instruction for two.
template <int kSize>
__device__ inline void NarrowFinite(const float (&values)[kSize], Pack<F8E4M3, kSize>& codes) {
#pragma unroll
  for (int i = 0; i < kSize; i += 2) {
    const unsigned pair =
        __nv_cvt_float2_to_fp8x2(make_float2(values[i], values[i + 1]), __NV_SATFINITE, __NV_E4M3);
    codes.at[i] = {static_cast<uint8_t>(pair)};
    codes.at[i + 1] = {static_cast<uint8_t>(pair >> 8)};
  }
}

// Each times `factor`, to nearest even; what is too large as 448 or -448, what is not finite as
// NaN.
template <int kSize>
__device__ inline void ToE4M3(const float (&values)[kSize], float factor,
                              Pack<F8E4M3, kSize>& codes) {
  float scaled[kSize];
  // 0 times what is not finite is NaN.
#pragma unroll
  for (int i = 0; i < kSize; ++i) scaled[i] = fmaf(values[i], 0, values[i] * factor);
  NarrowFinite(scaled, codes);
}

// Values as what `to` has, in place of `pack`, of which they were made: stored as T, or as e4m3,
// each times `factor` before. See Store.
template <bool kWhole, typename T, int kSize>
__device__ inline void StoreAs(const float (&values)[kSize], float, Pack<T, kSize>& pack,
                               int64_t count, T* to) {
  Narrow(values, pack);
  Store<kWhole>(pack, count, to);
}
template <bool kWhole, typename T, int kSize>
__device__ inline void StoreAs(const float (&values)[kSize], float factor, Pack<T, kSize>&,
                               int64_t count, F8E4M3* to) {
  Pack<F8E4M3, kSize> codes;
  ToE4M3(values, factor, codes);
  Store<kWhole>(codes, count, to);
}

// ToE4M3 of eight elements that lie next to each other.
template <typename T>
__device__ inline Pack<F8E4M3, 8> EightToE4M3(uint4 words, float factor) {
  const auto& from = *reinterpret_cast<const Pack<T, 8>*>(&words);
  float values[8];
#pragma unroll
  for (int i = 0; i < 8; ++i) values[i] = ToFloat(from.at[i]);
  Pack<F8E4M3, 8> codes;
  ToE4M3(values, factor, codes);
  return codes;
}

}  // namespace latentd::backends::cuda::kernels
