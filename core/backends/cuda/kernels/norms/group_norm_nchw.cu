// A group of a row lies in one piece, and so does each of its channels.
#include <algorithm>

#include "core/backends/cuda/kernels/common/launch.cuh"
#include "core/backends/cuda/kernels/common/numbers.cuh"
#include "core/backends/cuda/kernels/norms/group_moments.cuh"
#include "core/backends/cuda/kernels/values/activation.cuh"

namespace latentd::backends::cuda::kernels {
namespace {

constexpr int64_t kMostParts = 32;

// Addend of that plane, counted over all rows' channels, or null.
template <typename T>
__device__ const T* AddendOfPlane(const GroupNormArgs& args, int64_t plane) {
  return AddendAt<T>(args, plane / args.channels, plane % args.channels);
}

// Each block a part of a group: parts[group of a row][part]. Packs that cross from one channel into
// the next look its addend up for each element.
template <typename T, bool kAligned>
__global__ void NchwMoments(GroupNormArgs args, Moments* parts, int64_t size, int64_t count) {
  const int64_t group = blockIdx.x / count, part = blockIdx.x % count;
  const T* x = static_cast<const T*>(args.x) + group * size;
  const T* addends = AddendOfPlane<T>(args, group * (args.channels / args.groups));
  Moments own;
  const int64_t step = count * kThreads * kPackSize<T>;
  for (int64_t begin = (part * kThreads + threadIdx.x) * kPackSize<T>; begin < size;
       begin += step) {
    Pack<T, kPackSize<T>> pack;
    Load<kAligned>(x + begin, size - begin, pack);
    float values[kPackSize<T>];
#pragma unroll
    for (int i = 0; i < kPackSize<T>; ++i) {
      const int64_t at = min(begin + i, size - 1);
      values[i] =
          ToFloat(pack.at[i]) + (addends == nullptr ? 0 : ToFloat(addends[at / args.pixels]));
    }
    Gather(values, static_cast<int>(min(size - begin, int64_t{kPackSize<T>})), own);
  }
  __shared__ Moments of_threads[kThreads];
  of_threads[threadIdx.x] = own;
  __syncthreads();
  if (threadIdx.x >= kWarp) return;
  own = MergedByWarp(kThreads, [&](int i) { return of_threads[i]; });
  if (threadIdx.x == 0) parts[blockIdx.x] = own;
}

// Each block a piece of one channel's plane.
template <typename T, bool kAligned>
__global__ void NchwResult(GroupNormArgs args, const Moments* parts, int part_count,
                           int64_t blocks_per_plane) {
  __shared__ Normalization group;
  const int64_t plane = blockIdx.x / blocks_per_plane, channel = plane % args.channels;
  if (threadIdx.x < kWarp) {
    const int64_t number = plane / (args.channels / args.groups);
    const Normalization own =
        NormalizationOf(parts + number * part_count, part_count, args.epsilon);
    if (threadIdx.x == 0) group = own;
  }
  __syncthreads();
  const T* addend = AddendOfPlane<T>(args, plane);
  const float mean = group.mean - (addend == nullptr ? 0 : ToFloat(*addend));
  const float scale = group.scale * ToFloat(static_cast<const T*>(args.gamma)[channel]);
  const float beta = ToFloat(static_cast<const T*>(args.beta)[channel]);
  const int64_t first = plane * args.pixels, block = blockIdx.x % blocks_per_plane;
  const int64_t step = blocks_per_plane * kThreads * kPackSize<T>;
  for (int64_t begin = (block * kThreads + threadIdx.x) * kPackSize<T>; begin < args.pixels;
       begin += step) {
    Pack<T, kPackSize<T>> pack;
    Load<kAligned>(static_cast<const T*>(args.x) + first + begin, args.pixels - begin, pack);
#pragma unroll
    for (int i = 0; i < kPackSize<T>; ++i) {
      const float normal = fmaf(ToFloat(pack.at[i]) - mean, scale, beta);
      pack.at[i] = FromFloat<T>(Evaluate<T>(args.activation, normal));
    }
    Store<kAligned>(pack, args.pixels - begin, static_cast<T*>(args.result) + first + begin);
  }
}

template <typename T, bool kAligned>
cudaError_t LaunchNchw(const GroupNormArgs& args, cudaStream_t stream) {
  constexpr int64_t kBlockElements = kThreads * kPackSize<T> * 4;
  const int64_t size = args.channels / args.groups * args.pixels;
  const int64_t parts = std::clamp<int64_t>(CeilDiv(size, kBlockElements), 1, kMostParts);
  auto* const moments = static_cast<Moments*>(args.workspace);
  const cudaError_t error = Launch(
      NchwMoments<T, kAligned>, Grid{dim3(static_cast<unsigned>(args.rows * args.groups * parts))},
      stream, args, moments, size, parts);
  if (error != cudaSuccess) return error;
  const int64_t blocks = CeilDiv(args.pixels, kBlockElements);
  return Launch(NchwResult<T, kAligned>,
                Grid{dim3(static_cast<unsigned>(args.rows * args.channels * blocks))}, stream, args,
                static_cast<const Moments*>(moments), static_cast<int>(parts), blocks);
}

}  // namespace

cudaError_t GroupNormNchw(const GroupNormArgs& args, cudaStream_t stream) {
  return ForFloat(args.element, [&]<typename T>() {
    const bool aligned = args.pixels % kPackSize<T> == 0 && Aligned(16, args.x, args.result);
    return aligned ? LaunchNchw<T, true>(args, stream) : LaunchNchw<T, false>(args, stream);
  });
}

}  // namespace latentd::backends::cuda::kernels
