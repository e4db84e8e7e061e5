// What CUDA says, as a status.
#pragma once

#include <cuda_runtime_api.h>

#include "absl/status/status.h"
#include "absl/strings/string_view.h"

namespace latentd::device::cuda {

// Of the reason in a status: the device works no more, for this process.
inline constexpr char kDeviceFault[] = "DEVICE_FAULT";

// OK; RESOURCE_EXHAUSTED with reason OUT_OF_MEMORY; else INTERNAL, "WHAT: CUDA's message", with
// reason DEVICE_FAULT where no later call can succeed in this process (a kernel's bad access, a GPU
// that fell off the bus).
absl::Status ToStatus(cudaError_t error, absl::string_view what);

}  // namespace latentd::device::cuda
