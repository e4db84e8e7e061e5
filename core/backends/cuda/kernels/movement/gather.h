// Kernels whose every line of the result is a line of an operand. Dense; operands and result do not
// overlap. Lines are moved in the widest words that their size and their places allow.
#pragma once

#include <cuda_runtime_api.h>

#include <cstdint>

#include "core/backends/cuda/kernels/common/element.h"

namespace latentd::backends::cuda::kernels {

// [planes, height, width, channels] -> [planes, result_height, result_width, channels], by
// floor(i * in / out). NHWC: a plane is a row. NCHW: a plane is a channel of a row, of 1 channel.
struct UpsampleArgs {
  Element element = Element::kF32;
  const void* x = nullptr;
  void* result = nullptr;
  int64_t planes = 0, channels = 1;
  int64_t height = 0, width = 0;
  int64_t result_height = 0, result_width = 0;
};
cudaError_t Upsample(const UpsampleArgs& args, cudaStream_t stream);

// table [entries, channels], ids [size] -> [size, channels]; an id outside the table is clamped
// into it.
struct EmbeddingArgs {
  Element element = Element::kF32;
  const void* table = nullptr;
  const int64_t* ids = nullptr;
  void* result = nullptr;
  int64_t entries = 0, channels = 0, size = 0;
};
cudaError_t Embedding(const EmbeddingArgs& args, cudaStream_t stream);

// table f32 [rows, entries, channels], index [rows] -> [rows, channels]: each row's own entry, the
// index clamped.
struct SelectArgs {
  const float* table = nullptr;
  const int64_t* index = nullptr;
  float* result = nullptr;
  int64_t rows = 0, entries = 0, channels = 0;
};
cudaError_t Select(const SelectArgs& args, cudaStream_t stream);

}  // namespace latentd::backends::cuda::kernels
