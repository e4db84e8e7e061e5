// Kernels of a step that depend on its place in the schedule. All f32 and dense.
#pragma once

#include <cuda_runtime_api.h>

#include <cstdint>

namespace latentd::backends::cuda::kernels {

// timesteps [rows] -> [rows, dim]: of each angle t * exp(i * exponent_step) for i < dim / 2 the
// sine and the cosine, in float as diffusers computes them; an odd dim ends in a zero.
struct TimestepEmbeddingArgs {
  const float* timesteps = nullptr;
  float* result = nullptr;
  int64_t rows = 0, dim = 0;
  float exponent_step = 0;  // -log(10000) / (dim / 2 - downscale_freq_shift), rounded once
  bool cosines_first = true;
};
cudaError_t TimestepEmbedding(const TimestepEmbeddingArgs& args, cudaStream_t stream);

// One evaluation of a noise scheduler, as graph::SchedulerLine has it: the same numbers bit for bit
// as those of any backend that fuses each product with its addition. `result` may be `state`.
struct SchedulerStepArgs {
  const float* state = nullptr;   // [rows, 4, elements]
  const float* output = nullptr;  // [rows, elements]
  const float* noise = nullptr;   // [rows, elements], not read for rows whose line draws none
  const float* lines = nullptr;   // [rows, 27]
  float* result = nullptr;        // [rows, 4, elements]
  int64_t rows = 0, elements = 0;
};
cudaError_t SchedulerStep(const SchedulerStepArgs& args, cudaStream_t stream);

}  // namespace latentd::backends::cuda::kernels
