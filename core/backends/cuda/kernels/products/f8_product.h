// Linear layers of 8-bit floats (e4m3) on Hopper's tensor cores, with a residual that is read while
// products are computed.
#pragma once

#include <cuda_runtime_api.h>

#include <cstdint>

namespace latentd::backends::cuda::kernels {

// result [rows, columns] = x [rows, depth] times the weight [columns, depth] transposed, times
// *scale, plus bias, plus the residual. Computed in f32 and rounded once; sums keep some 14 bits.
// All is dense. The result may be written over the residual.
struct F8ProductArgs {
  const void* x = nullptr;         // e4m3; aligned to 16 bytes, as are all but the scale
  const void* weight = nullptr;    // e4m3
  const float* scale = nullptr;    // on the device
  const void* bias = nullptr;      // bf16, or null
  const void* residual = nullptr;  // bf16, or null
  void* result = nullptr;          // bf16
  int64_t rows = 0, columns = 0, depth = 0;
};

// Rows and columns of the result that a block computes at a time.
inline constexpr int64_t kF8ProductRows = 128, kF8ProductColumns = 160;

// Arguments that it supports, on a GPU of compute capability 9.0.
constexpr bool HasF8Product(const F8ProductArgs& args) {
  return args.columns % 8 == 0 && args.depth % 16 == 0;
}

// cudaErrorInvalidValue: what HasF8Product refuses, or an address that is not aligned.
// cudaErrorNotSupported: a GPU that is no Hopper.
cudaError_t F8Product(const F8ProductArgs& args, cudaStream_t stream);

}  // namespace latentd::backends::cuda::kernels
