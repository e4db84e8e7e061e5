// Attention over few keys, as a prompt has: a block reads all keys and values of a head once, and
// no score goes to memory. A query's result is the same whatever queries and rows are beside it.
#pragma once

#include <cuda_runtime_api.h>

#include <cstdint>

#include "core/backends/cuda/kernels/attention/attention_args.h"

namespace latentd::backends::cuda::kernels {

inline constexpr int64_t kMostShortAttentionKeys = 160;

// cudaErrorInvalidValue: another element or size, no key, or more than kMostShortAttentionKeys.
cudaError_t ShortAttention(const AttentionArgs& args, cudaStream_t stream);

}  // namespace latentd::backends::cuda::kernels
