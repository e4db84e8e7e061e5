// Convolutions of 8-bit floats (e4m3) of 3x3 on Hopper's tensor cores that keep an image's size, as
// matrix products whose x is read tap by tap, pixels as they lie.
#pragma once

#include <cuda_runtime_api.h>

#include <cstdint>

namespace latentd::backends::cuda::kernels {

// result [rows, height, width, out] = the convolution of x [rows, height, width, channels] by the
// weight [out, 3, 3, channels], with a stride and a padding of 1, times *scale, plus bias, plus the
// residual. Computed in f32 and rounded once; sums keep some 14 bits. All is dense. The result may
// be written over the residual.
struct F8ConvolutionArgs {
  const void* x = nullptr;         // e4m3; aligned to 16 bytes, as are all but the scale
  const void* weight = nullptr;    // e4m3
  const float* scale = nullptr;    // on the device
  const void* bias = nullptr;      // bf16, or null
  const void* residual = nullptr;  // bf16, or null
  void* result = nullptr;          // bf16
  int64_t rows = 0, height = 0, width = 0, channels = 0, out = 0;
};

// Arguments that it supports, on a GPU of compute capability 9.0.
constexpr bool HasF8Convolution(const F8ConvolutionArgs& args) {
  return args.channels % 64 == 0 && args.out % 8 == 0;
}

// cudaErrorInvalidValue: what HasF8Convolution refuses, or an address that is not aligned.
// cudaErrorNotSupported: a GPU that is no Hopper.
cudaError_t F8Convolution(const F8ConvolutionArgs& args, cudaStream_t stream);

}  // namespace latentd::backends::cuda::kernels
