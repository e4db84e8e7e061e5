#include "core/backends/cuda/kernels/attention/attention_weights.h"
#include "core/backends/cuda/kernels/common/launch.cuh"
#include "core/backends/cuda/kernels/common/moments.cuh"
#include "core/backends/cuda/kernels/common/numbers.cuh"
#include "core/backends/cuda/kernels/values/activation.cuh"

namespace latentd::backends::cuda::kernels {
namespace {

template <typename T>
__global__ void AttentionWeightsKernel(AttentionWeightsArgs a, T* result) {
  const int64_t query = blockIdx.x % a.queries + a.first_query;
  const int64_t seen = a.causal ? min(query + 1, a.keys) : a.keys;
  const float* scores = a.scores + int64_t{blockIdx.x} * a.keys;
  result += int64_t{blockIdx.x} * a.keys;
  float largest = Maximum::kNeutral;
  for (int64_t i = threadIdx.x; i < seen; i += kThreads) largest = Maximum{}(largest, scores[i]);
  largest = ReducedInBlock(largest, Maximum{});
  float sum = 0;
  for (int64_t i = threadIdx.x; i < seen; i += kThreads) sum += Exp<float>(scores[i] - largest);
  const float scale = 1 / ReducedInBlock(sum, Sum{});
  for (int64_t i = threadIdx.x; i < a.keys; i += kThreads) {
    result[i] = FromFloat<T>(i < seen ? Exp<float>(scores[i] - largest) * scale : 0.f);
  }
}

}  // namespace

cudaError_t AttentionWeights(const AttentionWeightsArgs& args, cudaStream_t stream) {
  return ForFloat(args.element, [&]<typename T>() {
    const Grid grid = {dim3(static_cast<unsigned>(args.matrices * args.queries))};
    return Launch(AttentionWeightsKernel<T>, grid, stream, args, static_cast<T*>(args.result));
  });
}

}  // namespace latentd::backends::cuda::kernels
