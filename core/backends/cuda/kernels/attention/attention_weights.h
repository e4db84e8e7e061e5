// The softmax of attention, where scores are computed by a matrix product of their own.
#pragma once

#include <cuda_runtime_api.h>

#include <cstdint>

#include "core/backends/cuda/kernels/common/element.h"

namespace latentd::backends::cuda::kernels {

// scores f32 [matrices, queries, keys] -> the softmax over keys of a float type, as Softmax
// computes it. Causal: query i, counted from first_query, sees keys 0 .. i and weighs the others
// with 0.
struct AttentionWeightsArgs {
  Element element = Element::kF32;  // the result's
  const float* scores = nullptr;
  void* result = nullptr;  // may be the scores, if it is f32
  int64_t matrices = 0, queries = 0, keys = 0;
  bool causal = false;
  int64_t first_query = 0;
};
cudaError_t AttentionWeights(const AttentionWeightsArgs& args, cudaStream_t stream);

}  // namespace latentd::backends::cuda::kernels
