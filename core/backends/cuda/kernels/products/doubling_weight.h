// The weight of a convolution that reads an image upsampled to twice its size, made for the image
// before that.
#pragma once

#include <cuda_runtime_api.h>

#include <cstdint>

#include "core/backends/cuda/kernels/common/element.h"

namespace latentd::backends::cuda::kernels {

// A nearest upsampling to twice the size and a 3x3 convolution with a padding of 1 are one
// transposed convolution of the small image, 4x4 with a stride of 2 and a padding of 1: pixel i of
// the small image and row r of the kernel meet in row 2 i + r - 1 of the result. There the 3x3
// kernel had those of its rows on the pixel's two copies that are from begin[r] to end[r], whose
// sum row r is. Columns alike.
struct DoublingTaps {
  int begin[4] = {2, 1, 0, 0};
  int end[4] = {3, 3, 2, 1};
};

// weight [out, in, 3, 3] -> result [in, 4, 4, out], summed in f32 and rounded once.
struct DoublingWeightArgs {
  Element element = Element::kF32;  // f32, f16, bf16
  const void* weight = nullptr;
  void* result = nullptr;
  int64_t out = 0, in = 0;
};
cudaError_t DoublingWeight(const DoublingWeightArgs& args, cudaStream_t stream);

}  // namespace latentd::backends::cuda::kernels
