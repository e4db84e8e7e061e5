// GPUs that multiply 8-bit floats.
//
// Internal to this directory.
#pragma once

#include "absl/status/status.h"
#include "core/backends/cuda/binders/bound_kernel.h"

namespace latentd::backends::cuda {

// UNIMPLEMENTED: the GPU has no 8-bit products.
absl::Status CheckHasF8(const Gpu& gpu);

}  // namespace latentd::backends::cuda
