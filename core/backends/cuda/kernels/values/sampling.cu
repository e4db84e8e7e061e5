#include "core/backends/cuda/kernels/common/launch.cuh"
#include "core/backends/cuda/kernels/values/sampling.h"

namespace latentd::backends::cuda::kernels {
namespace {

// Layout of a line of the schedule's table: graph::SchedulerLine, which this library does not see.
constexpr int kDrawsNoise = 2, kMatrix = 3, kStates = 4, kCombined = 6, kLineElements = 27;
static_assert(kLineElements == kMatrix + kStates * kCombined);

__global__ void TimestepEmbeddingKernel(TimestepEmbeddingArgs args) {
  const int64_t item = int64_t{blockIdx.x} * kThreads + threadIdx.x;
  const int64_t row = item / args.dim, column = item % args.dim, half = args.dim / 2;
  if (row >= args.rows) return;
  if (column >= 2 * half) {
    args.result[item] = 0;
    return;
  }
  // By way of double, so that the exponential is rounded once: the angle magnifies its error.
  const float exponent = static_cast<float>(column % half) * args.exponent_step;
  const auto frequency = static_cast<float>(exp(static_cast<double>(exponent)));
  const float angle = args.timesteps[row] * frequency;
  args.result[item] = (column < half) == args.cosines_first ? cosf(angle) : sinf(angle);
}

__global__ void SchedulerStepKernel(SchedulerStepArgs args) {
  const int64_t item = int64_t{blockIdx.x} * kThreads + threadIdx.x;
  const int64_t row = item / args.elements, element = item % args.elements;
  if (row >= args.rows) return;
  const float* line = args.lines + row * kLineElements;
  const int64_t first = row * kStates * args.elements + element;
  float combined[kCombined];
#pragma unroll
  for (int i = 0; i < kStates; ++i) combined[i] = args.state[first + i * args.elements];
  combined[kStates] = args.output[item];
  combined[kStates + 1] = line[kDrawsNoise] != 0 ? args.noise[item] : 0;
#pragma unroll
  for (int i = 0; i < kStates; ++i) {
    float sum = 0;
#pragma unroll
    for (int k = 0; k < kCombined; ++k) {
      sum = fmaf(line[kMatrix + i * kCombined + k], combined[k], sum);
    }
    args.result[first + i * args.elements] = sum;
  }
}

}  // namespace

cudaError_t TimestepEmbedding(const TimestepEmbeddingArgs& args, cudaStream_t stream) {
  return Launch(TimestepEmbeddingKernel, GridOf(args.rows * args.dim), stream, args);
}

cudaError_t SchedulerStep(const SchedulerStepArgs& args, cudaStream_t stream) {
  return Launch(SchedulerStepKernel, GridOf(args.rows * args.elements), stream, args);
}

}  // namespace latentd::backends::cuda::kernels
