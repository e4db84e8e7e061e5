// A product of a warp by tensor cores, as every GPU since the A100 has it.
#pragma once

#include <cuda_bf16.h>
#include <cuda_fp16.h>

#include <cstdint>
#include <type_traits>

namespace latentd::backends::cuda::kernels {

// sums [16, 8] += a [16, 16] * b [16, 8] of halves or bfloats, as PTX spreads them over a warp
// (mma.m16n8k16): of lane 4 g + t, words of `a` are row g at 2 t, row g + 8 there, and both at
// 2 t + 8; of b, column g at 2 t and 2 t + 8; sums are row g at 2 t and 2 t + 1, then row g + 8.
template <typename T>
__device__ void Multiply(const uint32_t (&a)[4], uint32_t b0, uint32_t b1, float (&sums)[4]) {
  static_assert(std::is_same_v<T, __half> || std::is_same_v<T, __nv_bfloat16>);
  if constexpr (std::is_same_v<T, __half>) {
    asm("mma.sync.aligned.m16n8k16.row.col.f32.f16.f16.f32 {%0,%1,%2,%3}, {%4,%5,%6,%7}, {%8,%9}, "
        "{%0,%1,%2,%3};"
        : "+f"(sums[0]), "+f"(sums[1]), "+f"(sums[2]), "+f"(sums[3])
        : "r"(a[0]), "r"(a[1]), "r"(a[2]), "r"(a[3]), "r"(b0), "r"(b1));
  } else {
    asm("mma.sync.aligned.m16n8k16.row.col.f32.bf16.bf16.f32 {%0,%1,%2,%3}, {%4,%5,%6,%7}, "
        "{%8,%9}, {%0,%1,%2,%3};"
        : "+f"(sums[0]), "+f"(sums[1]), "+f"(sums[2]), "+f"(sums[3])
        : "r"(a[0]), "r"(a[1]), "r"(a[2]), "r"(a[3]), "r"(b0), "r"(b1));
  }
}

}  // namespace latentd::backends::cuda::kernels
