// A pixel's neighbourhood, at most 72 numbers, is one side of a product by tensor cores and stays
// in registers; weights, the other side, lie in shared memory.
#include "core/backends/cuda/kernels/common/launch.cuh"
#include "core/backends/cuda/kernels/common/numbers.cuh"
#include "core/backends/cuda/kernels/common/tensor_core.cuh"
#include "core/backends/cuda/kernels/products/narrow_convolution.h"

namespace latentd::backends::cuda::kernels {
namespace {

constexpr int kTaps = 9;
constexpr int kWarps = kThreads / 32;
constexpr int kPixels = 16;  // pixels of a warp

// In shared memory, so that the lanes that read at once are in different banks, nearly all.
template <int kDepth>
constexpr int kPitch = kDepth + 10;

// The values around a pixel, by `index`; 0 beyond the image and the last tap.
template <typename T>
struct Neighbourhood {
  const T* row;  // its row of the batch
  int y, x, height, width, channels;

  __device__ T At(int index) const {
    const int tap = index / channels;
    const int at_y = y + tap / 3 - 1, at_x = x + tap % 3 - 1;
    if (tap >= kTaps || at_y < 0 || at_y >= height || at_x < 0 || at_x >= width) return T{};
    return row[(at_y * width + at_x) * channels + index % channels];
  }
  __device__ uint32_t PairAt(int index) const {
    const Pack<T, 2> pair = {{At(index), At(index + 1)}};
    return *reinterpret_cast<const uint32_t*>(&pair);
  }
};

template <typename T>
__device__ Neighbourhood<T> NeighbourhoodOf(const NarrowConvolutionArgs& a, int64_t pixel) {
  const auto height = static_cast<int>(a.height), width = static_cast<int>(a.width);
  const int64_t size = a.height * a.width;
  const auto in_row = static_cast<int>(pixel % size);
  return {static_cast<const T*>(a.x) + pixel / size * size * a.channels,
          in_row / width,
          in_row % width,
          height,
          width,
          static_cast<int>(a.channels)};
}

template <typename T, int kDepth>
__device__ void LoadWeights(const NarrowConvolutionArgs& a, T* shared) {
  const int line = kTaps * static_cast<int>(a.channels);
  const T* const weight = static_cast<const T*>(a.weight);
  for (int i = threadIdx.x; i < static_cast<int>(a.out) * kDepth; i += kThreads) {
    const int of = i / kDepth, at = i % kDepth;
    shared[of * kPitch<kDepth> + at] = at < line ? weight[of * line + at] : T{};
  }
}

// 32 results of the lane's two pixels, of which each lane of four has 8 beside each other.
template <typename T, int kDepth>
__device__ void Multiply32(const uint32_t (&x)[kDepth / 16][4], const T* weights, int group,
                           int part, float (&sums)[4][4]) {
#pragma unroll
  for (int n = 0; n < 4; ++n) {
    const T* const line =
        weights + (8 * (group / 2) + 2 * n + group % 2) * kPitch<kDepth> + 2 * part;
#pragma unroll
    for (int k = 0; k < kDepth / 16; ++k) {
      Multiply<T>(x[k], *reinterpret_cast<const uint32_t*>(line + 16 * k),
                  *reinterpret_cast<const uint32_t*>(line + 16 * k + 8), sums[n]);
    }
  }
}

template <typename T, int kDepth>
__global__ void ConvolutionOfFewKernel(NarrowConvolutionArgs a, int64_t pixels, T* result) {
  extern __shared__ uint4 memory[];
  T* const weights = reinterpret_cast<T*>(memory);
  LoadWeights<T, kDepth>(a, weights);
  const int group = threadIdx.x % 32 / 4, part = threadIdx.x % 4;
  const int64_t first = (int64_t{blockIdx.x} * kWarps + threadIdx.x / 32) * kPixels + group;
  uint32_t x[kDepth / 16][4] = {};
#pragma unroll
  for (int half = 0; half < 2; ++half) {
    if (first + 8 * half >= pixels) continue;
    const Neighbourhood<T> around = NeighbourhoodOf<T>(a, first + 8 * half);
#pragma unroll
    for (int k = 0; k < kDepth / 16; ++k) {
      x[k][half] = around.PairAt(16 * k + 2 * part);
      x[k][2 + half] = around.PairAt(16 * k + 2 * part + 8);
    }
  }
  __syncthreads();
  const int out = static_cast<int>(a.out);
  for (int begin = 0; begin < out; begin += 32) {
    float sums[4][4] = {};
    Multiply32<T, kDepth>(x, weights + begin * kPitch<kDepth>, group, part, sums);
    const int of = begin + 8 * part;
    Pack<T, 8> bias = {};
    if (a.bias != nullptr) Load<true>(static_cast<const T*>(a.bias) + of, 0, bias);
#pragma unroll
    for (int half = 0; half < 2; ++half) {
      if (first + 8 * half >= pixels) continue;
      float values[8];
#pragma unroll
      for (int i = 0; i < 8; ++i) values[i] = sums[i / 2][2 * half + i % 2] + ToFloat(bias.at[i]);
      Pack<T, 8> pack;
      Narrow(values, pack);
      Store<true>(pack, 0, result + (first + 8 * half) * out + of);
    }
  }
}

template <typename T, int kDepth>
cudaError_t LaunchFor(const NarrowConvolutionArgs& a, cudaStream_t stream) {
  const auto kernel = ConvolutionOfFewKernel<T, kDepth>;
  const size_t shared_bytes = a.out * kPitch<kDepth> * sizeof(T);
  if (auto error =
          cudaFuncSetAttribute(kernel, cudaFuncAttributeMaxDynamicSharedMemorySize,
                               static_cast<int>(kMostOutOfFew * kPitch<kDepth> * sizeof(T)));
      error != cudaSuccess) {
    return error;
  }
  const int64_t pixels = a.rows * a.height * a.width;
  const Grid grid = {.blocks = dim3(static_cast<unsigned>(CeilDiv(pixels, kWarps * kPixels))),
                     .shared_bytes = shared_bytes};
  return Launch(kernel, grid, stream, a, pixels, static_cast<T*>(a.result));
}

template <typename T>
cudaError_t LaunchOf(const NarrowConvolutionArgs& a, cudaStream_t stream) {
  if (a.channels <= 3) return LaunchFor<T, 32>(a, stream);
  if (a.channels <= 5) return LaunchFor<T, 48>(a, stream);
  return LaunchFor<T, 80>(a, stream);
}

}  // namespace

cudaError_t ConvolutionOfFew(const NarrowConvolutionArgs& args, cudaStream_t stream) {
  return args.element == Element::kF16 ? LaunchOf<__half>(args, stream)
                                       : LaunchOf<__nv_bfloat16>(args, stream);
}

}  // namespace latentd::backends::cuda::kernels
