// GPUs that multiply 8-bit floats.
//
// Internal to this directory.
#pragma once

#include "absl/status/status.h"
#include "core/backends/cuda/binders/bound_kernel.h"
#include "core/device/cuda/cuda_device.h"

namespace latentd::backends::cuda {

// UNIMPLEMENTED: a GPU of these properties has no 8-bit products.
absl::Status CheckHasF8(const device::cuda::CudaProperties& properties);

}  // namespace latentd::backends::cuda
