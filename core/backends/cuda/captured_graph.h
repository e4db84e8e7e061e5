// A graph of kernels that was captured, ready to be launched.
//
// Internal to this directory.
#pragma once

#include <cuda_runtime_api.h>

#include <memory>
#include <type_traits>

#include "core/device/cuda/cuda_device.h"
#include "core/device/cuda/cuda_status.h"

namespace latentd::backends::cuda {

struct DestroyGraph {
  void operator()(cudaGraphExec_t graph) const {
    if (device::cuda::SelectToGiveBack(device->ordinal())) cudaGraphExecDestroy(graph);
  }

  const device::cuda::CudaDevice* device = nullptr;  // outlives the graph
};
using GraphPointer = std::unique_ptr<std::remove_pointer_t<cudaGraphExec_t>, DestroyGraph>;

}  // namespace latentd::backends::cuda
