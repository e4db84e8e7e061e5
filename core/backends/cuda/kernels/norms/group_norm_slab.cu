// Group norm of NHWC images in one launch, where the blocks of a cluster can hold what they work on
// in shared memory: a cluster has some channels (whole groups) of a row, each of its blocks some of
// their pixels. Memory is read once; the blocks merge the moments of their groups.
#include <cooperative_groups.h>

#include <algorithm>
#include <type_traits>

#include "core/backends/cuda/kernels/common/launch.cuh"
#include "core/backends/cuda/kernels/common/numbers.cuh"
#include "core/backends/cuda/kernels/norms/group_moments.cuh"
#include "core/backends/cuda/kernels/norms/group_norm.h"
#include "core/backends/cuda/kernels/values/activation.cuh"
#include "core/backends/cuda/kernels/values/f8.cuh"

namespace latentd::backends::cuda::kernels {
namespace {

constexpr int kSlabThreads = 512;
// How a row is split must not depend on how many rows there are, nor on the GPU.
constexpr int kSlabs = 8;
// Blocks of a cluster, which lies in one group of the GPU's multiprocessors. All of two rows, which
// guidance has, are to be on the GPU at once: an H100 has room for 16 clusters of 6, but not for as
// many of 8, since its groups are no multiples of that. So there are 8 only where 6 cannot hold an
// image.
constexpr int kFewBlocks = 6, kMostBlocks = 8;
[[maybe_unused]] constexpr int kUnrolled = 4;  // pixels that a thread has in flight
constexpr size_t kSharedBytes = 227 << 10;

struct SlabShape {
  int channels, groups, channels_per_group;  // channels and groups of a slab
  int packs, lanes;  // a block's threads: packs of channels, of so many pixels
  int pixels, blocks, block_pixels;
  int64_t image_channels;
};

// The moments of a thread's numbers: those of its pack's first group and those of the next one, as
// sums of distances from a number that all threads of the block have for the group.
struct PackSums {
  float sum[2], squares[2];
};

template <typename T>
size_t SharedBytesOf(const SlabShape& s) {
  return size_t(s.block_pixels) * s.packs * sizeof(Pack<T, kPackSize<T>>) +
         kSlabThreads * sizeof(PackSums) + s.groups * (sizeof(Moments) + sizeof(Normalization));
}

template <typename T>
SlabShape SlabShapeOf(const GroupNormArgs& args) {
  SlabShape s = {};
  s.channels = static_cast<int>(args.channels / kSlabs);
  s.groups = static_cast<int>(args.groups / kSlabs);
  s.channels_per_group = static_cast<int>(args.channels / args.groups);
  s.packs = s.channels / kPackSize<T>;
  s.lanes = std::max(1, kSlabThreads / std::max(1, s.packs));
  s.pixels = static_cast<int>(args.pixels);
  s.image_channels = args.channels;
  for (const int blocks : {kFewBlocks, kMostBlocks}) {
    s.blocks = blocks;
    s.block_pixels = static_cast<int>(CeilDiv(args.pixels, blocks));
    if (SharedBytesOf<T>(s) <= kSharedBytes) break;
  }
  return s;
}

// A pack spans two groups at most.
template <typename T>
bool Fits(const GroupNormArgs& args) {
  if (args.groups % kSlabs != 0 || args.channels / kSlabs % kPackSize<T> != 0) return false;
  if (args.channels / args.groups < kPackSize<T> || args.pixels >= 1 << 24) return false;
  const SlabShape shape = SlabShapeOf<T>(args);
  return shape.packs <= kSlabThreads && SharedBytesOf<T>(shape) <= kSharedBytes;
}

#if __CUDA_ARCH__ >= 900

// Position of a thread's pack of channels between groups: its first `split` channels are of `group`
// of the slab, the others of the next one.
struct PackPlace {
  int group, split;
  __device__ PackPlace(const SlabShape& s, int channel, int size)
      : group(channel / s.channels_per_group),
        split(min(size, (group + 1) * s.channels_per_group - channel)) {}
  __device__ int Side(int i) const { return i < split ? 0 : 1; }
};

template <typename T>
class SlabOfThread {
 public:
  static constexpr int kSize = kPackSize<T>;
  using Own = Pack<T, kSize>;

  // x, addend, gamma and beta begin where the slab's channels do, of the block's first pixel and of
  // the row. What is needed of channels last is on its way from the beginning.
  __device__ SlabOfThread(const SlabShape& s, const T* x, const T* addend, const T* gamma,
                          const T* beta, Own* kept, int pixels)
      : shape_(s),
        x_(x),
        addend_(addend),
        kept_(kept),
        pixels_(pixels),
        pack_(threadIdx.x % s.packs),
        lane_(threadIdx.x / s.packs),
        place_(s, pack_ * kSize, kSize) {
    Load<true>(gamma + pack_ * kSize, 0, gamma_);
    Load<true>(beta + pack_ * kSize, 0, beta_);
    if (addend != nullptr) LoadAdded(addend + pack_ * kSize);
  }

  // Reads the block's pixels, keeps them and sums them up.
  __device__ PackSums Read() {
    PackSums sums = {};
    if (lane_ >= shape_.lanes || pixels_ == 0) return sums;
    float from[kSize], sum[kSize] = {}, squares[kSize] = {};
#pragma unroll
    for (int i = 0; i < kSize; ++i) {
      const int group = min(place_.group + place_.Side(i), shape_.groups - 1);
      from[i] = Origin(group * shape_.channels_per_group) - Added(i);
    }
    for (int pixel = lane_; pixel < pixels_; pixel += shape_.lanes * kUnrolled) {
      Own packs[kUnrolled];
#pragma unroll
      for (int u = 0; u < kUnrolled; ++u) {
        const int at = pixel + u * shape_.lanes;
        if (at < pixels_) Load<true>(x_ + at * shape_.image_channels + pack_ * kSize, 0, packs[u]);
      }
#pragma unroll
      for (int u = 0; u < kUnrolled; ++u) {
        const int at = pixel + u * shape_.lanes;
        if (at >= pixels_) continue;
        kept_[at * shape_.packs + pack_] = packs[u];
#pragma unroll
        for (int i = 0; i < kSize; ++i) {
          const float distance = ToFloat(packs[u].at[i]) - from[i];
          sum[i] += distance;
          squares[i] = fmaf(distance, distance, squares[i]);
        }
      }
    }
#pragma unroll
    for (int i = 0; i < kSize; ++i) {
      sums.sum[place_.Side(i)] += sum[i];
      sums.squares[place_.Side(i)] += squares[i];
    }
    return sums;
  }

  // Reference value that a group's distances are measured from.
  __device__ float Origin(int channel) const {
    return ToFloat(x_[channel]) + (addend_ == nullptr ? 0 : ToFloat(addend_[channel]));
  }

  // result begins where the slab's channels do; what is e4m3 is multiplied by `inverse` before.
  template <bool kSilu, typename To>
  __device__ void Write(const Normalization* groups, UnaryFunction activation, float inverse,
                        To* result) const {
    if (lane_ >= shape_.lanes) return;
    float mean[kSize], scale[kSize], shift[kSize];
#pragma unroll
    for (int i = 0; i < kSize; ++i) {
      const Normalization group = groups[min(place_.group + place_.Side(i), shape_.groups - 1)];
      mean[i] = group.mean - Added(i);
      scale[i] = group.scale * ToFloat(gamma_.at[i]);
      shift[i] = ToFloat(beta_.at[i]);
    }
    for (int pixel = lane_; pixel < pixels_; pixel += shape_.lanes) {
      Own pack = kept_[pixel * shape_.packs + pack_];
      float values[kSize];
#pragma unroll
      for (int i = 0; i < kSize; ++i) {
        const float normal = fmaf(ToFloat(pack.at[i]) - mean[i], scale[i], shift[i]);
        values[i] = kSilu ? Swish<T>(normal, 1) : Evaluate<T>(activation, normal);
      }
      StoreAs<true>(values, inverse, pack, 0,
                    result + pixel * shape_.image_channels + pack_ * kSize);
    }
  }

 private:
  // Wherever it lies. Rows may differ in that, and how an image is normed must not depend on which
  // row of how many it is.
  __device__ void LoadAdded(const T* from) {
    if (reinterpret_cast<uintptr_t>(from) % sizeof(Own) == 0) {
      Load<true>(from, kSize, added_);
    } else {
      Load<false>(from, kSize, added_);
    }
  }

  // To the pack's channel of that number.
  __device__ float Added(int i) const { return addend_ == nullptr ? 0 : ToFloat(added_.at[i]); }

  const SlabShape& shape_;
  const T* x_;
  const T* addend_;
  Own gamma_, beta_, added_ = {};
  Own* kept_;
  int pixels_, pack_, lane_;
  PackPlace place_;
};

// A group of the block, by a warp, from all threads that have a part of it.
template <int kSize>
__device__ Moments GroupOfBlock(const SlabShape& s, int group, const PackSums* of_threads,
                                int pixels, float origin) {
  const int first = group * s.channels_per_group, last = first + s.channels_per_group - 1;
  const int first_pack = first / kSize, packs = last / kSize - first_pack + 1;
  float sum = 0, squares = 0;
  for (int i = threadIdx.x % kWarp; i < packs * s.lanes; i += kWarp) {
    const int pack = first_pack + i % packs;
    const PackSums& own = of_threads[i / packs * s.packs + pack];
    const int side = group - PackPlace(s, pack * kSize, kSize).group;
    sum += own.sum[side];
    squares += own.squares[side];
  }
  sum = ReducedInWarp(sum, Sum{});
  squares = ReducedInWarp(squares, Sum{});
  const float count = static_cast<float>(pixels) * static_cast<float>(s.channels_per_group);
  const float mean = pixels == 0 ? 0 : sum / count;
  return {count, origin + mean, squares - sum * mean};
}

#endif

template <typename T, bool kSilu, typename To>
__global__ void __launch_bounds__(kSlabThreads, 1) NhwcSlab(SlabShape s, GroupNormArgs args) {
#if __CUDA_ARCH__ >= 900
  extern __shared__ uint4 memory[];
  auto* const kept = reinterpret_cast<Pack<T, kPackSize<T>>*>(memory);
  auto* const of_threads = reinterpret_cast<PackSums*>(kept + s.block_pixels * s.packs);
  auto* const moments = reinterpret_cast<Moments*>(of_threads + kSlabThreads);
  auto* const groups = reinterpret_cast<Normalization*>(moments + s.groups);
  const int64_t row = blockIdx.z, channel = int64_t{blockIdx.y} * s.channels;
  const int first = blockIdx.x * s.block_pixels;
  const int pixels = max(0, min(s.block_pixels, s.pixels - first));
  const int64_t at = (row * s.pixels + min(first, s.pixels - 1)) * s.image_channels + channel;
  SlabOfThread<T> slab(s, static_cast<const T*>(args.x) + at, AddendAt<T>(args, row, channel),
                       static_cast<const T*>(args.gamma) + channel,
                       static_cast<const T*>(args.beta) + channel, kept, pixels);
  of_threads[threadIdx.x] = slab.Read();
  __syncthreads();
  const int warp = threadIdx.x / kWarp;
  const bool writes = threadIdx.x % kWarp == 0;
  for (int group = warp; group < s.groups; group += kSlabThreads / kWarp) {
    const Moments own = GroupOfBlock<kPackSize<T>>(s, group, of_threads, pixels,
                                                   slab.Origin(group * s.channels_per_group));
    if (writes) moments[group] = own;
  }
  const cooperative_groups::cluster_group cluster = cooperative_groups::this_cluster();
  cluster.sync();
  for (int group = warp; group < s.groups; group += kSlabThreads / kWarp) {
    const Moments all = MergedByWarp(
        s.blocks, [&](int block) { return cluster.map_shared_rank(moments, block)[group]; });
    if (writes) groups[group] = {all.mean, 1 / sqrtf(all.squares / all.count + args.epsilon)};
  }
  cluster.sync();  // groups are written, and all blocks stay while others read their memory
  const float inverse = std::is_same_v<To, T> ? 1 : 1 / *args.f8_scale;
  slab.template Write<kSilu>(groups, args.activation, inverse, static_cast<To*>(args.result) + at);
#endif
}

template <typename T>
cudaError_t LaunchSlab(const GroupNormArgs& args, cudaStream_t stream) {
  const SlabShape shape = SlabShapeOf<T>(args);
  const auto kernel = args.f8_scale != nullptr                  ? NhwcSlab<T, true, F8E4M3>
                      : args.activation == UnaryFunction::kSilu ? NhwcSlab<T, true, T>
                                                                : NhwcSlab<T, false, T>;
  const size_t shared_bytes = SharedBytesOf<T>(shape);
  if (auto error = cudaFuncSetAttribute(kernel, cudaFuncAttributeMaxDynamicSharedMemorySize,
                                        static_cast<int>(kSharedBytes));
      error != cudaSuccess) {
    return error;
  }
  const auto blocks = static_cast<unsigned>(shape.blocks);
  const Grid grid = {.blocks = dim3(blocks, kSlabs, static_cast<unsigned>(args.rows)),
                     .threads = kSlabThreads,
                     .shared_bytes = shared_bytes,
                     .cluster = blocks};
  return Launch(kernel, grid, stream, shape, args);
}

// Code for sm_80 has no clusters, wherever it runs.
template <typename T>
bool HasClusters() {
  cudaFuncAttributes attributes;
  return cudaFuncGetAttributes(&attributes, NhwcSlab<T, true, T>) == cudaSuccess &&
         attributes.ptxVersion >= 90;
}

}  // namespace

cudaError_t GroupNormSlab(const GroupNormArgs& args, cudaStream_t stream, bool& has) {
  return ForFloat(args.element, [&]<typename T>() {
    has = Fits<T>(args) && Aligned(16, args.x, args.gamma, args.beta, args.result) &&
          HasClusters<T>();
    return has ? LaunchSlab<T>(args, stream) : cudaSuccess;
  });
}

}  // namespace latentd::backends::cuda::kernels
