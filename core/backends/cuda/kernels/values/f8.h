// Kernels that make 8-bit floats (e4m3) and what they are scaled by. All is dense.
#pragma once

#include <cuda_runtime_api.h>

#include <cstdint>

#include "core/backends/cuda/kernels/common/element.h"

namespace latentd::backends::cuda::kernels {

// x [rows, size] -> [rows], f32: the largest absolute value of each row, or its Euclidean length.
// NaN stays NaN. A row is a block's.
struct RowNormArgs {
  bool euclidean = false;
  const float* x = nullptr;
  float* result = nullptr;
  int64_t rows = 0, size = 0;
};
cudaError_t RowNorm(const RowNormArgs& args, cudaStream_t stream);

// The least power of two s with x / s at most 448, no less than 2^-100; 1 where x is 0 or not
// finite. x is not negative.
struct F8ScaleArgs {
  const float* x = nullptr;
  float* result = nullptr;
  int64_t size = 0;
};
cudaError_t F8Scale(const F8ScaleArgs& args, cudaStream_t stream);

// x divided by *scale, a power of two, as e4m3: to nearest even, what is too large as 448 or -448,
// and what is not finite as NaN. At multiples of 16 bytes x is read 16 bytes at a time.
struct QuantizeArgs {
  Element element = Element::kF32;  // dtype of x: f32, f16, bf16
  const void* x = nullptr;
  const float* scale = nullptr;
  void* result = nullptr;
  int64_t size = 0;
};
cudaError_t Quantize(const QuantizeArgs& args, cudaStream_t stream);

}  // namespace latentd::backends::cuda::kernels
