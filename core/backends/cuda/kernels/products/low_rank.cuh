// Parts of the kernels of low-rank paths (low_rank.h), which all add a line's products up in one
// order, so that it is of no account which of them computes it: the depth of the first product is
// cut into pieces of kDepth elements, of which every kParts-th is of one part, and the parts' sums
// are added up in order.
#pragma once

#include <algorithm>
#include <cstdint>

#include "core/backends/cuda/kernels/common/numbers.cuh"
#include "core/backends/cuda/kernels/common/tensor_core.cuh"
#include "core/backends/cuda/kernels/products/low_rank.h"

namespace latentd::backends::cuda::kernels::low_rank {

inline constexpr int kLines = 16;    // lines of a warp's product
inline constexpr int kColumns = 32;  // columns of it: ranks of the first, results of the second
inline constexpr int kTiles = kColumns / 8;
inline constexpr int kWordSize = 8;  // elements that a thread reads of a line at once
inline constexpr int kDepth =
    4 * kWordSize;  // elements that a warp multiplies of each line at once
inline constexpr int kParts = 8;

__host__ __device__ inline int64_t HiddenPitch(int64_t rank) {
  return (rank + kColumns - 1) / kColumns * kColumns;
}

// One answer for all blocks. REQUIRES: all threads of the warp call it.
__device__ inline bool HasPath(const LowRankArgs& args, int64_t row) {
  const int64_t slot = args.slot[row];
  const float* scale = args.scale + row * args.scale_row;
  bool any = false;
  for (int64_t i = threadIdx.x % 32; i < args.rank; i += 32) any = any || scale[i] != 0;
  return __any_sync(0xffffffffu, any) != 0 && slot >= 0 && slot < args.slots;
}

// The place of a thread in its warp's product, as tensor_core.cuh has it.
struct Place {
  int warp, group, part;
};

__device__ inline Place PlaceOfThread() {
  const int thread = static_cast<int>(threadIdx.x);
  return {thread / 32, thread % 32 / 4, thread % 4};
}

// sums [16, 8] of a warp += kDepth elements of its lines times as many of its columns, each a
// thread's word of both: of lines `group` and `group` + 8, and of column `group`. (Which element is
// which of a product's depth is the same on both sides, and of no account otherwise.)
template <typename T>
__device__ inline void MultiplyWords(const uint4& upper, const uint4& lower, const uint4& column,
                                     float (&sums)[4]) {
  const uint32_t first[4] = {upper.x, lower.x, upper.y, lower.y};
  const uint32_t second[4] = {upper.z, lower.z, upper.w, lower.w};
  Multiply<T>(first, column.x, column.y, sums);
  Multiply<T>(second, column.z, column.w, sums);
}

// Result, of kColumns, that is column `group` of a warp's tile. So a thread's sums of all
// tiles are eight results beside each other: column j of tile n is result 8 (j / 2) + 2 n + j % 2.
__device__ inline int ResultOf(int tile, int group) {
  return 8 * (group / 2) + 2 * tile + group % 2;
}

// The thread's results of its line `group` + 8 * half += its sums.
template <typename T>
__device__ inline void AddSums(const float (&sums)[kTiles][4], int half, Pack<T, kWordSize>& pack) {
  float values[kWordSize];
#pragma unroll
  for (int j = 0; j < kWordSize; ++j) {
    values[j] = ToFloat(pack.at[j]) + sums[j / 2][2 * half + j % 2];
  }
  Narrow(values, pack);
}

}  // namespace latentd::backends::cuda::kernels::low_rank
