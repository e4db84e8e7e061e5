#include "core/backends/cuda/kernels/common/launch.cuh"
#include "core/backends/cuda/kernels/common/moments.cuh"
#include "core/backends/cuda/kernels/common/numbers.cuh"
#include "core/backends/cuda/kernels/values/f8.cuh"
#include "core/backends/cuda/kernels/values/f8.h"

namespace latentd::backends::cuda::kernels {
namespace {

template <bool kEuclidean>
__global__ void RowNormKernel(const float* x, float* result, int64_t size) {
  const float* const row = x + int64_t{blockIdx.x} * size;
  float own = 0;
  for (int64_t i = threadIdx.x; i < size; i += kThreads) {
    own = kEuclidean ? fmaf(row[i], row[i], own) : Maximum{}(own, fabsf(row[i]));
  }
  const float all = kEuclidean ? sqrtf(ReducedInBlock(own, Sum{})) : ReducedInBlock(own, Maximum{});
  if (threadIdx.x == 0) result[blockIdx.x] = all;
}

__device__ float F8ScaleOf(float x) {
  constexpr float kMost = 448, kLeast = 0x1p-100f;
  if (x == 0 || !isfinite(x)) return 1;
  int exponent = 0;
  const float mantissa = frexpf(__fdiv_rn(x, kMost), &exponent);
  return fmaxf(kLeast, ldexpf(1, mantissa == 0.5f ? exponent - 1 : exponent));
}

__global__ void F8ScaleKernel(const float* x, float* result, int64_t size) {
  const int64_t i = int64_t{blockIdx.x} * kThreads + threadIdx.x;
  if (i < size) result[i] = F8ScaleOf(x[i]);
}

template <typename T, bool kAligned>
__global__ void QuantizeKernel(const T* x, const float* scale, F8E4M3* result, int64_t size) {
  constexpr int kSize = kPackSize<T>;
  const int64_t begin = (int64_t{blockIdx.x} * kThreads + threadIdx.x) * kSize;
  if (begin >= size) return;
  const float factor = 1 / *scale;  // exactly: it is a power of two
  Pack<T, kSize> from;
  LoadSome<kAligned>(x + begin, size - begin, from);
  float values[kSize];
#pragma unroll
  for (int i = 0; i < kSize; ++i) values[i] = ToFloat(from.at[i]);
  Pack<F8E4M3, kSize> to;
  ToE4M3(values, factor, to);
  StoreSome<kAligned>(to, size - begin, result + begin);
}

}  // namespace

cudaError_t RowNorm(const RowNormArgs& args, cudaStream_t stream) {
  const Grid grid = {dim3(static_cast<unsigned>(args.rows))};
  return Launch(args.euclidean ? RowNormKernel<true> : RowNormKernel<false>, grid, stream, args.x,
                args.result, args.size);
}

cudaError_t F8Scale(const F8ScaleArgs& args, cudaStream_t stream) {
  return Launch(F8ScaleKernel, GridOf(args.size), stream, args.x, args.result, args.size);
}

cudaError_t Quantize(const QuantizeArgs& args, cudaStream_t stream) {
  return ForFloat(args.element, [&]<typename T>() {
    const bool aligned = Aligned(16, args.x) && Aligned(kPackSize<T>, args.result);
    return Launch(aligned ? QuantizeKernel<T, true> : QuantizeKernel<T, false>,
                  GridOf(CeilDiv(args.size, kPackSize<T>)), stream, static_cast<const T*>(args.x),
                  args.scale, static_cast<F8E4M3*>(args.result), args.size);
  });
}

}  // namespace latentd::backends::cuda::kernels
