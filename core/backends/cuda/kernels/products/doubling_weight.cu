#include "core/backends/cuda/kernels/common/launch.cuh"
#include "core/backends/cuda/kernels/common/numbers.cuh"
#include "core/backends/cuda/kernels/products/doubling_weight.h"

namespace latentd::backends::cuda::kernels {
namespace {

// A thread has one 3x3 kernel, and neighbours write next to each other.
template <typename T>
__global__ void DoublingWeightKernel(const T* weight, T* result, int64_t out, int64_t in) {
  constexpr DoublingTaps taps;
  const int64_t item = int64_t{blockIdx.x} * kThreads + threadIdx.x;
  if (item >= out * in) return;
  const int64_t from = item / out, to = item % out;
  float tap[9];
#pragma unroll
  for (int i = 0; i < 9; ++i) tap[i] = ToFloat(weight[(to * in + from) * 9 + i]);
#pragma unroll
  for (int r = 0; r < 4; ++r) {
#pragma unroll
    for (int s = 0; s < 4; ++s) {
      float sum = 0;
#pragma unroll
      for (int i = 0; i < 9; ++i) {
        const bool in_row = i / 3 >= taps.begin[r] && i / 3 < taps.end[r];
        const bool in_column = i % 3 >= taps.begin[s] && i % 3 < taps.end[s];
        if (in_row && in_column) sum += tap[i];
      }
      result[(from * 16 + 4 * r + s) * out + to] = FromFloat<T>(sum);
    }
  }
}

}  // namespace

cudaError_t DoublingWeight(const DoublingWeightArgs& args, cudaStream_t stream) {
  return ForFloat(args.element, [&]<typename T>() {
    return Launch(DoublingWeightKernel<T>, GridOf(args.out * args.in), stream,
                  static_cast<const T*>(args.weight), static_cast<T*>(args.result), args.out,
                  args.in);
  });
}

}  // namespace latentd::backends::cuda::kernels
