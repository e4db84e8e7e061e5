// Conversion of CUDA's errors to a status.
#pragma once

#include <cuda_runtime_api.h>

#include "absl/status/status.h"
#include "absl/strings/string_view.h"

namespace latentd::device::cuda {

// OK; RESOURCE_EXHAUSTED with reason OUT_OF_MEMORY; else INTERNAL, "WHAT: CUDA's message", which is
// a device's fault (device_fault.h) where no later call can succeed in this process.
absl::Status ToStatus(cudaError_t error, absl::string_view what);

// INTERNAL with this message; a device's fault where the current one has failed, which is what a
// library on top of CUDA does not tell.
absl::Status FailureOf(absl::string_view message);

}  // namespace latentd::device::cuda
