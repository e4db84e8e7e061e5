// A thread keeps to some channels, one pack of them, and takes every so many pixels: what it needs
// of its channels stays in registers, and a block reads memory from one end to the other.
#include <cooperative_groups.h>

#include <algorithm>
#include <type_traits>

#include "core/backends/cuda/kernels/common/divisor.cuh"
#include "core/backends/cuda/kernels/common/launch.cuh"
#include "core/backends/cuda/kernels/common/numbers.cuh"
#include "core/backends/cuda/kernels/norms/group_moments.cuh"
#include "core/backends/cuda/kernels/values/activation.cuh"
#include "core/backends/cuda/kernels/values/f8.cuh"

namespace latentd::backends::cuda::kernels {
namespace {

// As many as have registers for what they keep.
template <typename T>
constexpr int kMaxThreads = sizeof(T) == 4 ? 1024 : 512;
template <typename T>
constexpr int kMinBlocks = 1024 / kMaxThreads<T>;
// Blocks that merge their moments before they write them, where the GPU has clusters (sm_90).
constexpr int kCluster = 8;
// Pixels that a thread has in flight.
constexpr int kMomentsUnrolled = 4, kResultUnrolled = 2;

// A block's threads: `packs` of channels for each of `lanes` pixels.
struct BlockShape {
  int packs, lanes;
  int64_t pixels, channels;
  int64_t block_pixels;  // whose moments a block takes
  int groups, channels_per_group;
  Divisor by_group;  // divides by channels_per_group
};

template <typename T>
BlockShape BlockShapeOf(const GroupNormArgs& args) {
  const int packs = static_cast<int>(CeilDiv(args.channels, kPackSize<T>));
  return {packs,
          std::max(1, kMaxThreads<T> / packs),
          args.pixels,
          args.channels,
          0,
          static_cast<int>(args.groups),
          static_cast<int>(args.channels / args.groups),
          Divisor(args.channels / args.groups)};
}

// Sums over the thread's pixels of the distances of one pack's channels from the block's first
// pixel, which lies nearer to the mean than 0 does, and of their squares.
template <typename T>
struct ChannelSums {
  float distance[kPackSize<T>] = {}, squares[kPackSize<T>] = {};

  __device__ void Add(const Pack<T, kPackSize<T>>& pixel, const Pack<T, kPackSize<T>>& first) {
#pragma unroll
    for (int i = 0; i < kPackSize<T>; ++i) {
      const float own = ToFloat(pixel.at[i]) - ToFloat(first.at[i]);
      distance[i] += own;
      squares[i] = fmaf(own, own, squares[i]);
    }
  }
};

// Sums every lanes-th of `pixels` from the lane's own; x is at the first one. `count` channels.
template <typename T, bool kAligned>
__device__ ChannelSums<T> SumsOfPixels(const BlockShape& shape, const T* x, int lane, int pixels,
                                       int64_t count) {
  ChannelSums<T> sums;
  Pack<T, kPackSize<T>> first = {};
  if (pixels > 0) Load<kAligned>(x, count, first);
  for (int pixel = lane; pixel < pixels; pixel += shape.lanes * kMomentsUnrolled) {
    Pack<T, kPackSize<T>> packs[kMomentsUnrolled];
#pragma unroll
    for (int u = 0; u < kMomentsUnrolled; ++u) {
      const int at = pixel + u * shape.lanes;
      packs[u] = first;  // adds nothing
      if (at < pixels) Load<kAligned>(x + at * shape.channels, count, packs[u]);
    }
#pragma unroll
    for (int u = 0; u < kMomentsUnrolled; ++u) sums.Add(packs[u], first);
  }
  return sums;
}

// In shared memory: [pack size, threads], first each thread's sums of distances and squares, then
// instead of the first lane's the means and squares of channels; and the block's groups.
struct SharedMoments {
  float* mean;
  float* squares;
  Moments* groups;

  __device__ SharedMoments(float* memory, int pack_size) {
    mean = memory;
    squares = mean + pack_size * blockDim.x;
    groups = reinterpret_cast<Moments*>(squares + pack_size * blockDim.x);
  }
};

size_t SharedMomentsBytes(const BlockShape& shape, int pack_size) {
  const size_t sums = size_t(shape.packs) * shape.lanes * pack_size;
  return 2 * sums * sizeof(float) + shape.groups * sizeof(Moments);
}

template <int kPack>
__device__ inline int PlaceOf(int channel) {
  return channel % kPack * blockDim.x + channel / kPack;
}

// From the sums of all threads to the moments of channels. `first` is the pixel that distances are
// from; `addend` is of the row or null.
template <typename T>
__device__ void MergeLanes(const BlockShape& shape, const T* first, const T* addend, int pixels,
                           const SharedMoments& shared) {
  const float share = pixels > 0 ? 1 / static_cast<float>(pixels) : 0;
  for (int channel = threadIdx.x; channel < shape.channels; channel += blockDim.x) {
    const int place = PlaceOf<kPackSize<T>>(channel);
    float distance = 0, squares = 0;
    for (int lane = 0; lane < shape.lanes; ++lane) {
      distance += shared.mean[place + lane * shape.packs];
      squares += shared.squares[place + lane * shape.packs];
    }
    const float from = pixels > 0 ? ToFloat(first[channel]) : 0;
    const float added = addend == nullptr ? 0 : ToFloat(addend[channel]);
    shared.mean[place] = fmaf(distance, share, from + added);
    shared.squares[place] = squares - distance * distance * share;
  }
}

// function(group) for every step-th group from the first, each by a whole warp. A block need not
// end with one: what it ends with has no groups.
template <typename Function>
__device__ void ForGroups(int groups, int first, int step, const Function& function) {
  const int warp = threadIdx.x / kWarp, warps = blockDim.x / kWarp;
  if (warp == warps) return;
  for (int group = first + warp * step; group < groups; group += warps * step) function(group);
}

// From channels, of so many pixels, to the block's groups.
template <int kPack>
__device__ void MergeGroups(const BlockShape& shape, int pixels, const SharedMoments& shared) {
  ForGroups(shape.groups, 0, 1, [&](int group) {
    const Moments own = MergedByWarp(shape.channels_per_group, [&](int channel) {
      const int place = PlaceOf<kPack>(group * shape.channels_per_group + channel);
      return Moments{static_cast<float>(pixels), shared.mean[place], shared.squares[place]};
    });
    if (threadIdx.x % kWarp == 0) shared.groups[group] = own;
  });
}

// The groups of all blocks of a cluster, or of this block, to the part's place.
__device__ inline void WriteGroups(const BlockShape& shape, const SharedMoments& shared,
                                   Moments* row_parts) {
#if __CUDA_ARCH__ >= 900
  const cooperative_groups::cluster_group cluster = cooperative_groups::this_cluster();
  const int size = cluster.num_blocks(), rank = cluster.block_rank();
  const int parts = gridDim.x / size, part = blockIdx.x / size;
  cluster.sync();
  ForGroups(shape.groups, rank, size, [&](int group) {
    const Moments own = MergedByWarp(
        size, [&](int block) { return cluster.map_shared_rank(shared.groups, block)[group]; });
    if (threadIdx.x % kWarp == 0) row_parts[int64_t{group} * parts + part] = own;
  });
  cluster.sync();  // all blocks stay while others read their memory
#else
  __syncthreads();
  for (int group = threadIdx.x; group < shape.groups; group += blockDim.x) {
    row_parts[int64_t{group} * gridDim.x + blockIdx.x] = shared.groups[group];
  }
#endif
}

template <typename T, bool kAligned>
__global__ void __launch_bounds__(kMaxThreads<T>, kMinBlocks<T>)
    NhwcMoments(BlockShape shape, const T* x, const T* addend, int64_t addend_pitch, Moments* parts,
                int64_t parts_of_row) {
  extern __shared__ float memory[];
  const SharedMoments shared(memory, kPackSize<T>);
  const int64_t row = blockIdx.y, first = blockIdx.x * shape.block_pixels;
  const int pixels =
      static_cast<int>(max(min(shape.block_pixels, shape.pixels - first), int64_t{0}));
  const int channel = threadIdx.x % shape.packs * kPackSize<T>;
  x += (row * shape.pixels + first) * shape.channels;
  const ChannelSums<T> sums = SumsOfPixels<T, kAligned>(
      shape, x + channel, threadIdx.x / shape.packs, pixels, shape.channels - channel);
#if __CUDA_ARCH__ >= 900
  cudaTriggerProgrammaticLaunchCompletion();  // the next launch may come in, and waits
#endif
#pragma unroll
  for (int i = 0; i < kPackSize<T>; ++i) {
    shared.mean[i * blockDim.x + threadIdx.x] = sums.distance[i];
    shared.squares[i * blockDim.x + threadIdx.x] = sums.squares[i];
  }
  __syncthreads();
  MergeLanes(shape, x, AddendAt(addend, addend_pitch, row, 0), pixels, shared);
  __syncthreads();
  MergeGroups<kPackSize<T>>(shape, pixels, shared);
  WriteGroups(shape, shared, parts + row * parts_of_row);
}

// A thread's numbers for its channels: activation((x - mean) * scale + beta).
template <typename T>
struct ChannelNormalization {
  float mean[kPackSize<T>], scale[kPackSize<T>], beta[kPackSize<T>];

  __device__ ChannelNormalization(const BlockShape& shape, int64_t channel,
                                  const Normalization* groups, const T* addend, const T* gamma,
                                  const T* betas) {
#pragma unroll
    for (int i = 0; i < kPackSize<T>; ++i) {
      const int64_t at = min(channel + i, shape.channels - 1);
      uint32_t rest;
      const Normalization group = groups[shape.by_group.Divide(at, rest)];
      mean[i] = group.mean - (addend == nullptr ? 0 : ToFloat(addend[at]));
      scale[i] = group.scale * ToFloat(gamma[at]);
      beta[i] = ToFloat(betas[at]);
    }
  }
};

// kSilu: the activation is SiLU, and the others are not compiled in. To: T, or F8E4M3.
template <typename T, bool kAligned, bool kSilu, typename To>
__global__ void __launch_bounds__(kMaxThreads<T>, kMinBlocks<T>)
    NhwcResult(BlockShape shape, GroupNormArgs args, const Moments* parts, int part_count) {
  extern __shared__ float memory[];
  auto* const groups = reinterpret_cast<Normalization*>(memory);
  const int64_t row = blockIdx.y, channel = threadIdx.x % shape.packs * kPackSize<T>;
  WaitForStream();
  ForGroups(shape.groups, 0, 1, [&](int group) {
    const Normalization own = NormalizationOf(parts + (row * shape.groups + group) * part_count,
                                              part_count, args.epsilon);
    if (threadIdx.x % kWarp == 0) groups[group] = own;
  });
  __syncthreads();
  const ChannelNormalization<T> channels(shape, channel, groups, AddendAt<T>(args, row, 0),
                                         static_cast<const T*>(args.gamma),
                                         static_cast<const T*>(args.beta));
  const int64_t first = row * shape.pixels * shape.channels + channel;
  const T* x = static_cast<const T*>(args.x) + first;
  To* result = static_cast<To*>(args.result) + first;
  const float inverse = std::is_same_v<To, T> ? 1 : 1 / *args.f8_scale;
  const int64_t step = int64_t{gridDim.x} * shape.lanes, count = shape.channels - channel;
  for (int64_t pixel = int64_t{blockIdx.x} * shape.lanes + threadIdx.x / shape.packs;
       pixel < shape.pixels; pixel += step * kResultUnrolled) {
    Pack<T, kPackSize<T>> packs[kResultUnrolled];
#pragma unroll
    for (int u = 0; u < kResultUnrolled; ++u) {
      const int64_t at = pixel + u * step;
      if (at < shape.pixels) Load<kAligned>(x + at * shape.channels, count, packs[u]);
    }
#pragma unroll
    for (int u = 0; u < kResultUnrolled; ++u) {
      const int64_t at = pixel + u * step;
      if (at >= shape.pixels) continue;
      float values[kPackSize<T>];
#pragma unroll
      for (int i = 0; i < kPackSize<T>; ++i) {
        const float normal =
            fmaf(ToFloat(packs[u].at[i]) - channels.mean[i], channels.scale[i], channels.beta[i]);
        values[i] = kSilu ? Swish<T>(normal, 1) : Evaluate<T>(args.activation, normal);
      }
      StoreAs<kAligned>(values, inverse, packs[u], count, result + at * shape.channels);
    }
  }
}

// Parts into which a row's pixels are split, of so many blocks each.
struct Split {
  int64_t parts;
  int cluster;
};

// The same for a row whatever rows are beside it: about 16 KiB a block, and no more blocks than two
// rows (with guidance; one, if it is as large as only the VAE has them) need to fill a GPU.
template <typename T, typename Kernel>
cudaError_t SplitOf(Kernel kernel, const BlockShape& shape, Split& split) {
  constexpr int64_t kBlockBytes = 16384, kLargeBytes = 32 << 20;
  cudaFuncAttributes attributes;
  const cudaError_t error = cudaFuncGetAttributes(&attributes, kernel);
  if (error != cudaSuccess) return error;
  // Code for sm_80 has no clusters, wherever it runs.
  split.cluster = attributes.ptxVersion >= 90 ? kCluster : 1;
  const int64_t bytes = shape.pixels * shape.channels * sizeof(T);
  const int64_t most = std::min(bytes > kLargeBytes ? 256 : 128, int(kMaxParts) * split.cluster);
  const int64_t blocks = std::clamp<int64_t>(bytes / kBlockBytes, 1, most);
  split.parts = CeilDiv(blocks, split.cluster);
  return cudaSuccess;
}

template <typename T, bool kAligned>
cudaError_t LaunchMoments(const GroupNormArgs& args, const BlockShape& shape, const Split& split,
                          cudaStream_t stream) {
  const Grid grid = {.blocks = dim3(static_cast<unsigned>(split.parts * split.cluster),
                                    static_cast<unsigned>(args.rows)),
                     .threads = static_cast<unsigned>(shape.packs * shape.lanes),
                     .shared_bytes = SharedMomentsBytes(shape, kPackSize<T>),
                     .cluster = static_cast<unsigned>(split.cluster)};
  return Launch(NhwcMoments<T, kAligned>, grid, stream, shape, static_cast<const T*>(args.x),
                static_cast<const T*>(args.addend), args.addend_pitch,
                static_cast<Moments*>(args.workspace), split.parts * args.groups);
}

// As many blocks as are on the GPU at once, and not more than have work.
template <typename T>
cudaError_t ResultBlocks(const GroupNormArgs& args, const BlockShape& shape, unsigned& blocks) {
  DeviceTraits device;
  if (auto error = QueryDevice(device); error != cudaSuccess) return error;
  const int64_t most = CeilDiv(int64_t{device.multiprocessors} * kMinBlocks<T>, args.rows);
  blocks =
      static_cast<unsigned>(std::clamp<int64_t>(CeilDiv(args.pixels, shape.lanes * 2), 1, most));
  return cudaSuccess;
}

template <typename T, bool kAligned>
cudaError_t LaunchNhwc(const GroupNormArgs& args, cudaStream_t stream) {
  BlockShape shape = BlockShapeOf<T>(args);
  Split split;
  unsigned blocks = 0;
  if (auto error = SplitOf<T>(NhwcMoments<T, kAligned>, shape, split); error != cudaSuccess) {
    return error;
  }
  shape.block_pixels = CeilDiv(args.pixels, split.parts * split.cluster);
  if (auto error = ResultBlocks<T>(args, shape, blocks); error != cudaSuccess) return error;
  if (auto error = LaunchMoments<T, kAligned>(args, shape, split, stream); error != cudaSuccess) {
    return error;
  }
  const auto kernel = args.f8_scale != nullptr ? NhwcResult<T, kAligned, true, F8E4M3>
                      : args.activation == UnaryFunction::kSilu ? NhwcResult<T, kAligned, true, T>
                                                                : NhwcResult<T, kAligned, false, T>;
  const Grid grid = {.blocks = dim3(blocks, static_cast<unsigned>(args.rows)),
                     .threads = static_cast<unsigned>(shape.packs * shape.lanes),
                     .shared_bytes = shape.groups * sizeof(Normalization),
                     .early = split.cluster > 1};
  return Launch(kernel, grid, stream, shape, args, static_cast<const Moments*>(args.workspace),
                static_cast<int>(split.parts));
}

}  // namespace

cudaError_t GroupNormNhwc(const GroupNormArgs& args, cudaStream_t stream) {
  if (args.channels > kMaxNhwcChannels || args.groups > kMaxNhwcGroups)
    return cudaErrorInvalidValue;
  return ForFloat(args.element, [&]<typename T>() {
    const bool aligned = args.channels % kPackSize<T> == 0 && Aligned(16, args.x, args.result);
    return aligned ? LaunchNhwc<T, true>(args, stream) : LaunchNhwc<T, false>(args, stream);
  });
}

}  // namespace latentd::backends::cuda::kernels
