// Kernels over rows. x is dense and a row is read as a whole; what comes of a row is the same
// whatever rows are beside it and wherever they begin. Rows that begin at multiples of 16 bytes are
// read 16 bytes at a time. Sums are in f32, variances from distances to the mean.
#pragma once

#include <cuda_runtime_api.h>

#include <cstddef>
#include <cstdint>

#include "core/backends/cuda/kernels/common/element.h"

namespace latentd::backends::cuda::kernels {

// x [rows, size], gamma and beta [size], all of one float type. In place where result is x.
struct LayerNormArgs {
  Element element = Element::kF32;
  const void* x = nullptr;
  const void* gamma = nullptr;
  const void* beta = nullptr;
  void* result = nullptr;
  int64_t rows = 0, size = 0;
  float epsilon = 1e-5f;
  // Null: the result is of x's type. Else it is e4m3 of what is divided by this power of two, on
  // the device, as kernels/f8.h has it, and not in place.
  const float* f8_scale = nullptr;
};
cudaError_t LayerNorm(const LayerNormArgs& args, cudaStream_t stream);

// x [rows, size].
struct RowsArgs {
  Element element = Element::kF32;  // dtype of x
  const void* x = nullptr;
  void* result = nullptr;
  int64_t rows = 0, size = 0;
  // For RowStd alone: RowStdWorkspaceBytes, aligned to 4; used until the call has run.
  void* workspace = nullptr;
};
// In place where result is x. A row of -inf alone becomes NaN, as one with a NaN.
cudaError_t Softmax(const RowsArgs& args, cudaStream_t stream);
size_t RowStdWorkspaceBytes(int64_t rows, int64_t size);
// -> [rows]: the standard deviation, by size - 1. Not in place. Several blocks share a long row, in
// two launches.
cudaError_t RowStd(const RowsArgs& args, cudaStream_t stream);
// -> u8 [rows]: 1 for a row whose elements all are finite, else 0. Not in place.
cudaError_t IsFinite(const RowsArgs& args, cudaStream_t stream);

}  // namespace latentd::backends::cuda::kernels
