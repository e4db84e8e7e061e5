// Patches of an image under a convolution's kernel, as the lines of a matrix: with it a convolution
// is a matrix product ("im2col").
#pragma once

#include <cuda_runtime_api.h>

#include <cstdint>

#include "core/backends/cuda/kernels/common/element.h"

namespace latentd::backends::cuda::kernels {

// x [rows, height, width, channels] -> [size, kernel_height, kernel_width, channels]: the patches
// of the result's pixels first .. first + size - 1, counted over rows, height and width; 0 beyond
// the image's edges. Dense; result and x do not overlap.
struct PatchesArgs {
  Element element = Element::kF32;
  const void* x = nullptr;
  void* result = nullptr;
  int64_t height = 0, width = 0, channels = 0;
  int64_t kernel_height = 1, kernel_width = 1, stride = 1, top = 0, left = 0;
  int64_t result_height = 0, result_width = 0;
  int64_t first = 0, size = 0;
};
cudaError_t Patches(const PatchesArgs& args, cudaStream_t stream);

}  // namespace latentd::backends::cuda::kernels
