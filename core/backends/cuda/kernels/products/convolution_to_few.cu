// Each pixel's channels are multiplied with the weights of all taps and results at once, by tensor
// cores, so that they are read once and stay in registers; then each result adds what the pixels
// around it have for it. Pixels at a tile's edge are multiplied by its neighbours too: 27 % more.
#include "core/backends/cuda/kernels/common/launch.cuh"
#include "core/backends/cuda/kernels/common/numbers.cuh"
#include "core/backends/cuda/kernels/common/tensor_core.cuh"
#include "core/backends/cuda/kernels/products/narrow_convolution.h"

namespace latentd::backends::cuda::kernels {
namespace {

constexpr int kSide = 16;             // side of a block's tile of results
constexpr int kReadSide = kSide + 2;  // side of the tile that it reads
constexpr int kRead = kReadSide * kReadSide;
constexpr int kWarps = 7, kProducts = 3;  // each of 16 pixels: 336, of which 324 are there
constexpr int kPitch = 340;  // pixels of a column, so that what lanes write is in different banks
constexpr int kTaps = 9;

// A pixel that a block reads, counted over its tile and a pixel around it; null outside the image.
template <typename T>
__device__ const T* PixelOf(const NarrowConvolutionArgs& a, int index) {
  const int y = static_cast<int>(blockIdx.y) * kSide + index / kReadSide - 1;
  const int x = static_cast<int>(blockIdx.x) * kSide + index % kReadSide - 1;
  if (index >= kRead || y < 0 || y >= a.height || x < 0 || x >= a.width) return nullptr;
  return static_cast<const T*>(a.x) +
         ((blockIdx.z * a.height + y) * a.width + x) * static_cast<int64_t>(a.channels);
}

// Products of a warp's pixels: each pixel's for result `column / 9` at tap `column % 9`.
template <typename T, int kColumns>
struct Products {
  const T* pixels[kProducts][2];
  float sums[kProducts][kColumns / 8][4] = {};

  // 32 of them, of which the thread has those from `channel` on.
  __device__ void AddChannels(int channel, const uint4 (&weights)[kColumns / 8]) {
    uint4 x[kProducts][2] = {};
#pragma unroll
    for (int i = 0; i < 2 * kProducts; ++i) {
      const T* const pixel = pixels[i / 2][i % 2];
      if (pixel != nullptr) x[i / 2][i % 2] = *reinterpret_cast<const uint4*>(pixel + channel);
    }
#pragma unroll
    for (int i = 0; i < kProducts; ++i) {
      const uint32_t first[4] = {x[i][0].x, x[i][1].x, x[i][0].y, x[i][1].y};
      const uint32_t second[4] = {x[i][0].z, x[i][1].z, x[i][0].w, x[i][1].w};
#pragma unroll
      for (int n = 0; n < kColumns / 8; ++n) {
        Multiply<T>(first, weights[n].x, weights[n].y, sums[i][n]);
        Multiply<T>(second, weights[n].z, weights[n].w, sums[i][n]);
      }
    }
  }
};

// `shared` is [columns, kPitch] of pixels.
template <typename T, int kColumns>
__device__ void MultiplyPixels(const NarrowConvolutionArgs& a, float* shared) {
  const int group = threadIdx.x % 32 / 4, part = threadIdx.x % 4;
  const int first = static_cast<int>(threadIdx.x) / 32 * kProducts * 16 + group;
  const int columns = kTaps * static_cast<int>(a.out), channels = static_cast<int>(a.channels);
  Products<T, kColumns> products;
#pragma unroll
  for (int i = 0; i < 2 * kProducts; ++i) {
    products.pixels[i / 2][i % 2] = PixelOf<T>(a, first + 8 * i);
  }
  // The order of 32 channels within a product is free: a thread has 8 beside each other.
  for (int channel = 8 * part; channel < channels; channel += 32) {
    uint4 weights[kColumns / 8] = {};
#pragma unroll
    for (int n = 0; n < kColumns / 8; ++n) {
      const int column = 8 * n + group;
      if (column >= columns) continue;
      weights[n] = *reinterpret_cast<const uint4*>(static_cast<const T*>(a.weight) +
                                                   column * channels + channel);
    }
    products.AddChannels(channel, weights);
  }
#pragma unroll
  for (int i = 0; i < kProducts * (kColumns / 8) * 4; ++i) {
    const int product = i / 4 / (kColumns / 8), n = i / 4 % (kColumns / 8), at = i % 4;
    const int column = 8 * n + 2 * part + at % 2;
    if (column >= columns) continue;
    shared[column * kPitch + first + 16 * product + 8 * (at / 2)] = products.sums[product][n][at];
  }
}

template <typename T, int kColumns>
__global__ void __launch_bounds__(kWarps * 32)
    ConvolutionToFewKernel(NarrowConvolutionArgs a, T* result) {
  extern __shared__ float shared[];
  MultiplyPixels<T, kColumns>(a, shared);
  __syncthreads();
  const int out = static_cast<int>(a.out);
  for (int i = static_cast<int>(threadIdx.x); i < kSide * kSide * out; i += kWarps * 32) {
    const int of = i % out, in_y = i / out / kSide, in_x = i / out % kSide;
    const int64_t y = int64_t{blockIdx.y} * kSide + in_y, x = int64_t{blockIdx.x} * kSide + in_x;
    if (y >= a.height || x >= a.width) continue;
    float sum = a.bias == nullptr ? 0 : ToFloat(static_cast<const T*>(a.bias)[of]);
#pragma unroll
    for (int tap = 0; tap < kTaps; ++tap) {
      const int pixel = (in_y + tap / 3) * kReadSide + in_x + tap % 3;
      sum += shared[(of * kTaps + tap) * kPitch + pixel];
    }
    result[((blockIdx.z * a.height + y) * a.width + x) * out + of] = FromFloat<T>(sum);
  }
}

template <typename T, int kColumns>
cudaError_t LaunchFor(const NarrowConvolutionArgs& a, cudaStream_t stream) {
  const auto kernel = ConvolutionToFewKernel<T, kColumns>;
  const size_t shared_bytes = kTaps * a.out * kPitch * sizeof(float);
  if (auto error = cudaFuncSetAttribute(kernel, cudaFuncAttributeMaxDynamicSharedMemorySize,
                                        kColumns * kPitch * static_cast<int>(sizeof(float)));
      error != cudaSuccess) {
    return error;
  }
  const Grid grid = {.blocks = dim3(static_cast<unsigned>(CeilDiv(a.width, kSide)),
                                    static_cast<unsigned>(CeilDiv(a.height, kSide)),
                                    static_cast<unsigned>(a.rows)),
                     .threads = kWarps * 32,
                     .shared_bytes = shared_bytes};
  return Launch(kernel, grid, stream, a, static_cast<T*>(a.result));
}

template <typename T>
cudaError_t LaunchOf(const NarrowConvolutionArgs& a, cudaStream_t stream) {
  if (a.out <= 3) return LaunchFor<T, 32>(a, stream);
  if (a.out == 4) return LaunchFor<T, 40>(a, stream);
  return LaunchFor<T, 72>(a, stream);
}

}  // namespace

cudaError_t ConvolutionToFew(const NarrowConvolutionArgs& args, cudaStream_t stream) {
  return args.element == Element::kF16 ? LaunchOf<__half>(args, stream)
                                       : LaunchOf<__nv_bfloat16>(args, stream);
}

}  // namespace latentd::backends::cuda::kernels
