// Choice of our own kernel for an attention.
//
// Internal to this directory.
#pragma once

#include <cuda_runtime_api.h>

#include "core/backends/cuda/kernels/attention/attention_args.h"
#include "core/device/cuda/cuda_device.h"

namespace latentd::backends::cuda {

using OwnAttention = cudaError_t (*)(const kernels::AttentionArgs& args, cudaStream_t stream);

// Null: none has the shape, or another is better. Addresses do not matter.
OwnAttention OwnAttentionFor(const kernels::AttentionArgs& args,
                             const device::cuda::CudaProperties& gpu);

}  // namespace latentd::backends::cuda
