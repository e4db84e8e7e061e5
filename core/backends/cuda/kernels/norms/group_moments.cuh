// The parts of each group's moments, between the launch that makes them and the one that reads
// them: [rows, groups, parts].
#pragma once

#include <cstdint>

#include "core/backends/cuda/kernels/common/moments.cuh"
#include "core/backends/cuda/kernels/norms/group_norm.h"

namespace latentd::backends::cuda::kernels {

inline constexpr int64_t kMaxParts = 128;

// Numbers that normalize a pixel's value.
struct Normalization {
  float mean, scale;
};

// Addends of a row's channels from that one on, or null.
template <typename T>
__device__ inline const T* AddendAt(const T* addend, int64_t pitch, int64_t row, int64_t channel) {
  return addend == nullptr ? nullptr : addend + row * pitch + channel;
}
template <typename T>
__device__ inline const T* AddendAt(const GroupNormArgs& args, int64_t row, int64_t channel) {
  return AddendAt(static_cast<const T*>(args.addend), args.addend_pitch, row, channel);
}

// Merges a group's parts, by a warp.
__device__ inline Normalization NormalizationOf(const Moments* parts, int count, float epsilon) {
  const Moments own = MergedByWarp(count, [=](int i) { return parts[i]; });
  return {own.mean, 1 / sqrtf(own.squares / own.count + epsilon)};
}

// The moments of `taken` numbers, the rest of `values` left out, merged into `own`.
template <int kSize>
__device__ inline void Gather(const float (&values)[kSize], int taken, Moments& own) {
  float sum = 0, squares = 0;
#pragma unroll
  for (int i = 0; i < kSize; ++i) sum += i < taken ? values[i] : 0;
  const float mean = sum / static_cast<float>(taken);
#pragma unroll
  for (int i = 0; i < kSize; ++i) {
    const float distance = i < taken ? values[i] - mean : 0;
    squares = fmaf(distance, distance, squares);
  }
  own = Merged(own, {static_cast<float>(taken), mean, squares});
}

// Each layout's two launches.
cudaError_t GroupNormNhwc(const GroupNormArgs& args, cudaStream_t stream);
cudaError_t GroupNormNchw(const GroupNormArgs& args, cudaStream_t stream);

}  // namespace latentd::backends::cuda::kernels
