// Means and variances in f32 that stay exact where the mean is large beside the deviation, and sums
// over the threads of a warp or a block. The order of every sum follows from sizes alone.
#pragma once

#include <cstdint>

namespace latentd::backends::cuda::kernels {

inline constexpr unsigned kAllLanes = 0xffffffff;
inline constexpr int kWarp = 32;

// Moments of some numbers: how many, their mean, and the sum of squared distances from it.
struct Moments {
  float count = 0, mean = 0, squares = 0;
};

// Chan's: of the numbers of both.
__device__ inline Moments Merged(const Moments& a, const Moments& b) {
  if (b.count == 0) return a;
  const float count = a.count + b.count, share = b.count / count, delta = b.mean - a.mean;
  return {count, fmaf(delta, share, a.mean),
          a.squares + b.squares + delta * delta * a.count * share};
}

struct Sum {
  static constexpr float kNeutral = 0;
  __device__ float operator()(float a, float b) const { return a + b; }
};

// NaN wins.
struct Maximum {
  static constexpr float kNeutral = -__builtin_huge_valf();
  __device__ float operator()(float a, float b) const { return a > b || a != a ? a : b; }
};

// In every lane.
template <typename Reduction>
__device__ inline float ReducedInWarp(float own, Reduction reduction) {
#pragma unroll
  for (int distance = kWarp / 2; distance > 0; distance /= 2) {
    own = reduction(own, __shfl_xor_sync(kAllLanes, own, distance));
  }
  return own;
}

// Merges at(0), .. at(size - 1), by a warp, in every lane. Squares are moved from each mean to the
// common one, which takes one division where Merged takes one for each.
template <typename At>
__device__ inline Moments MergedByWarp(int size, const At& at) {
  const int lane = threadIdx.x % kWarp;
  const Moments first = lane < size ? at(lane) : Moments{};
  float count = first.count, sum = first.count * first.mean;
  for (int i = lane + kWarp; i < size; i += kWarp) {
    const Moments next = at(i);
    count += next.count;
    sum = fmaf(next.count, next.mean, sum);
  }
  count = ReducedInWarp(count, Sum{});
  const float share = 1 / fmaxf(count, 1), mean = ReducedInWarp(sum, Sum{}) * share;
  float rest = 0, squares = 0;
  const auto add = [&](const Moments& moments) {
    const float distance = moments.mean - mean, weighted = moments.count * distance;
    rest += weighted;
    squares += fmaf(weighted, distance, moments.squares);
  };
  add(first);
  for (int i = lane + kWarp; i < size; i += kWarp) add(at(i));
  rest = ReducedInWarp(rest, Sum{}) * share;  // the mean's rounding error
  return {count, mean + rest, ReducedInWarp(squares, Sum{}) - count * rest * rest};
}

// In every thread of a block of whole warps. Every thread calls it.
template <typename Reduction>
__device__ inline float ReducedInBlock(float own, Reduction reduction) {
  __shared__ float of_warps[kWarp];
  const int warp = threadIdx.x / kWarp, lane = threadIdx.x % kWarp;
  own = ReducedInWarp(own, reduction);
  __syncthreads();  // the last call's readers are done
  if (lane == 0) of_warps[warp] = own;
  __syncthreads();
  const int warps = blockDim.x / kWarp;
  return ReducedInWarp(lane < warps ? of_warps[lane] : Reduction::kNeutral, reduction);
}

}  // namespace latentd::backends::cuda::kernels
