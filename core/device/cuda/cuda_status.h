// Conversion of CUDA's errors to a status, and what is known of GPUs that have failed. Thread-safe.
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

// The GPU of that number has failed, and others of the process have not: from now on nothing that
// it has is given back or waited for, nor anything asked of it, since CUDA may wait for ever.
void GiveUp(int ordinal);
bool IsGivenUp(int ordinal);

// Selects the GPU for the calling thread. A device's fault, without a call of CUDA: it is given up.
absl::Status SelectGpu(int ordinal);

// Selects the GPU, to give back what it has. False: it is given up, or CUDA is gone.
bool SelectToGiveBack(int ordinal);

}  // namespace latentd::device::cuda
