// From a call on the host to a kernel of the right type and size.
#pragma once

#include <cuda_bf16.h>
#include <cuda_fp16.h>
#include <cuda_runtime.h>

#include <cstdint>
#include <utility>

#include "core/backends/cuda/kernels/common/element.h"

namespace latentd::backends::cuda::kernels {

inline constexpr int kThreads = 256;

inline int64_t CeilDiv(int64_t a, int64_t b) { return (a + b - 1) / b; }

struct Grid {
  dim3 blocks;
  dim3 threads = kThreads;
  size_t shared_bytes = 0;
  dim3 cluster = 1;  // blocks that share memory
  // The kernel begins with WaitForStream, so its blocks may come in while those of the kernel
  // before it leave. For code of sm_90 and newer alone.
  bool early = false;
};

// As many blocks as give each of `items` a thread.
inline Grid GridOf(int64_t items) {
  return {dim3(static_cast<unsigned>(CeilDiv(items, kThreads)))};
}

// Traits of the GPU that the thread has selected.
struct DeviceTraits {
  int compute_capability_major = 0, multiprocessors = 0;
};

inline cudaError_t QueryDevice(DeviceTraits& traits) {
  int device = 0;
  if (auto error = cudaGetDevice(&device); error != cudaSuccess) return error;
  if (auto error = cudaDeviceGetAttribute(&traits.compute_capability_major,
                                          cudaDevAttrComputeCapabilityMajor, device);
      error != cudaSuccess) {
    return error;
  }
  return cudaDeviceGetAttribute(&traits.multiprocessors, cudaDevAttrMultiProcessorCount, device);
}

// Until all that was enqueued before this kernel is done and what it wrote can be read. A kernel
// that is launched `early` neither reads nor writes memory that others write before it.
__device__ inline void WaitForStream() {
#if __CUDA_ARCH__ >= 900
  cudaGridDependencySynchronize();
#endif
}

template <typename... Parameters, typename... Arguments>
cudaError_t Launch(void (*kernel)(Parameters...), const Grid& grid, cudaStream_t stream,
                   Arguments&&... arguments) {
  cudaLaunchAttribute attributes[2] = {};
  cudaLaunchConfig_t config = {};
  config.gridDim = grid.blocks;
  config.blockDim = grid.threads;
  config.dynamicSmemBytes = grid.shared_bytes;
  config.stream = stream;
  config.attrs = attributes;
  if (grid.cluster.x * grid.cluster.y * grid.cluster.z > 1) {
    cudaLaunchAttribute& attribute = attributes[config.numAttrs++];
    attribute.id = cudaLaunchAttributeClusterDimension;
    attribute.val.clusterDim = {grid.cluster.x, grid.cluster.y, grid.cluster.z};
  }
  if (grid.early) {
    cudaLaunchAttribute& attribute = attributes[config.numAttrs++];
    attribute.id = cudaLaunchAttributeProgrammaticStreamSerialization;
    attribute.val.programmaticStreamSerializationAllowed = 1;
  }
  return cudaLaunchKernelEx(&config, kernel, std::forward<Arguments>(arguments)...);
}

// Calls launch.operator()<T>() for the T of `element`, which must be a float type.
template <typename Function>
cudaError_t ForFloat(Element element, const Function& launch) {
  switch (element) {
    case Element::kF32:
      return launch.template operator()<float>();
    case Element::kF16:
      return launch.template operator()<__half>();
    case Element::kBF16:
      return launch.template operator()<__nv_bfloat16>();
    default:
      return cudaErrorInvalidValue;
  }
}

template <typename... Pointers>
bool Aligned(size_t bytes, Pointers... pointers) {
  return ((reinterpret_cast<uintptr_t>(pointers) % bytes == 0) && ...);
}

}  // namespace latentd::backends::cuda::kernels
