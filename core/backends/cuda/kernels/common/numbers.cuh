// Elements in memory, and the f32 in which kernels compute with them.
#pragma once

#include <cuda_bf16.h>
#include <cuda_fp16.h>

#include <cstdint>

namespace latentd::backends::cuda::kernels {

// 8-bit floats as they are stored.
struct F8E4M3 {
  uint8_t bits;
};
struct F8E5M2 {
  uint8_t bits;
};

__device__ inline float ToFloat(float x) { return x; }
__device__ inline float ToFloat(__half x) { return __half2float(x); }
__device__ inline float ToFloat(__nv_bfloat16 x) { return __bfloat162float(x); }
__device__ inline float ToFloat(int64_t x) { return static_cast<float>(x); }
__device__ inline float ToFloat(uint8_t x) { return static_cast<float>(x); }

// An e4m3 in the place of an f16's upper bits, whose exponent's bias is 8 more; that has no NaN.
__device__ inline float ToFloat(F8E4M3 x) {
  const unsigned sign = (x.bits & 0x80u) << 8, magnitude = x.bits & 0x7Fu;
  const unsigned half = sign | (magnitude == 0x7Fu ? 0x7E00u : magnitude << 7);
  return __half2float(__ushort_as_half(static_cast<unsigned short>(half))) * 256;
}
__device__ inline float ToFloat(F8E5M2 x) {
  return __half2float(__ushort_as_half(static_cast<unsigned short>(x.bits << 8)));
}

// To nearest even; NaN stays NaN.
template <typename T>
__device__ T FromFloat(float x);
template <>
__device__ inline float FromFloat(float x) {
  return x;
}
template <>
__device__ inline __half FromFloat(float x) {
  return __float2half_rn(x);
}
template <>
__device__ inline __nv_bfloat16 FromFloat(float x) {
  return __float2bfloat16_rn(x);
}

// Elements that are read and written at once, at most 16 bytes of them.
template <typename T, int kSize>
struct alignas(sizeof(T) * kSize) Pack {
  T at[kSize];
};

template <typename T>
inline constexpr int kPackSize = 16 / static_cast<int>(sizeof(T));

// As FromFloat for each, two at a time where one instruction does that.
template <typename T, int kSize>
__device__ inline void Narrow(const float (&values)[kSize], Pack<T, kSize>& pack) {
#pragma unroll
  for (int i = 0; i < kSize; ++i) pack.at[i] = FromFloat<T>(values[i]);
}
template <int kSize>
__device__ inline void Narrow(const float (&values)[kSize], Pack<__nv_bfloat16, kSize>& pack) {
#pragma unroll
  for (int i = 0; i < kSize; i += 2) {
    const __nv_bfloat162 pair = __floats2bfloat162_rn(values[i], values[i + 1]);
    pack.at[i] = pair.x;
    pack.at[i + 1] = pair.y;
  }
}
template <int kSize>
__device__ inline void Narrow(const float (&values)[kSize], Pack<__half, kSize>& pack) {
#pragma unroll
  for (int i = 0; i < kSize; i += 2) {
    const __half2 pair = __floats2half2_rn(values[i], values[i + 1]);
    pack.at[i] = pair.x;
    pack.at[i + 1] = pair.y;
  }
}

// Two elements in a word, the first in the lower half.
template <typename T>
__device__ inline uint32_t Pair(float first, float second) {
  Pack<T, 2> pair;
  Narrow({first, second}, pair);
  return *reinterpret_cast<const uint32_t*>(&pair);
}

// The first `count` elements at `from`, the others are left alone. kWhole: there is a whole pack
// and `from` is aligned, so that one instruction reads it; a branch here would keep the loads of
// several packs from being in flight together. Otherwise one element at a time.
template <bool kWhole, typename T, int kSize>
__device__ inline void Load(const T* from, int64_t count, Pack<T, kSize>& pack) {
  if constexpr (kWhole) {
    pack = *reinterpret_cast<const Pack<T, kSize>*>(from);
  } else {
#pragma unroll
    for (int i = 0; i < kSize; ++i) {
      if (i < count) pack.at[i] = from[i];
    }
  }
}

template <bool kWhole, typename T, int kSize>
__device__ inline void Store(const Pack<T, kSize>& pack, int64_t count, T* to) {
  if constexpr (kWhole) {
    *reinterpret_cast<Pack<T, kSize>*>(to) = pack;
  } else {
#pragma unroll
    for (int i = 0; i < kSize; ++i) {
      if (i < count) to[i] = pack.at[i];
    }
  }
}

// As Load and Store, where the last pack of aligned ones may be a part of one.
template <bool kAligned, typename T, int kSize>
__device__ inline void LoadSome(const T* from, int64_t count, Pack<T, kSize>& pack) {
  if (kAligned && count >= kSize) return Load<true>(from, count, pack);
  Load<false>(from, count, pack);
}

template <bool kAligned, typename T, int kSize>
__device__ inline void StoreSome(const Pack<T, kSize>& pack, int64_t count, T* to) {
  if (kAligned && count >= kSize) return Store<true>(pack, count, to);
  Store<false>(pack, count, to);
}

}  // namespace latentd::backends::cuda::kernels
