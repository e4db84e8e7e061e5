// Runs a plan of cuDNN on random numbers of its own and compares elements of the result with what
// double precision gives: a library's plan can be wrong, and be the one that it recommends.
//
// Internal to this directory. Thread-safe.
#pragma once

#include "absl/status/status.h"
#include "core/backends/cuda/libraries/cudnn.h"

namespace latentd::backends::cuda {

// INTERNAL: the plan fails, or gives something else than the shape's result.
// RESOURCE_EXHAUSTED: no memory of the device to try it. A device's fault: device_fault.h.
absl::Status TryPlan(const ConvolutionShape& shape, const CudnnPlan& plan);
absl::Status TryPlan(const TransposedConvolutionShape& shape, const CudnnPlan& plan);
absl::Status TryPlan(const AttentionShape& shape, const CudnnPlan& plan);

}  // namespace latentd::backends::cuda
