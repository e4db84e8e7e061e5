// Kernels over views with strides.
//
// Sizes and strides are in elements, outermost first, `rank` of them (at most kMaxRank; a scalar
// has none); strides are not negative, and 0 where an operand is broadcast. Dimensions that follow
// each other without gaps are taken together, and where the innermost is dense and divides well, 16
// bytes are moved at a time.
#pragma once

#include <cuda_runtime_api.h>

#include <cstdint>

#include "core/backends/cuda/kernels/common/element.h"

namespace latentd::backends::cuda::kernels {

enum class BinaryFunction : uint8_t { kAdd, kSub, kMul, kDiv };

// Operands of one float type, computed in f32. The result may be written over an operand of the
// same strides.
struct BinaryArgs {
  BinaryFunction function = BinaryFunction::kAdd;
  Element element = Element::kF32;
  int rank = 0;
  int64_t sizes[kMaxRank] = {};
  const void* a = nullptr;
  int64_t a_strides[kMaxRank] = {};
  const void* b = nullptr;
  int64_t b_strides[kMaxRank] = {};
  void* result = nullptr;
  int64_t result_strides[kMaxRank] = {};
};
cudaError_t Binary(const BinaryArgs& args, cudaStream_t stream);

// Operands of any element. Source and result do not overlap.
struct CopyArgs {
  Element element = Element::kF32;
  int rank = 0;
  int64_t sizes[kMaxRank] = {};
  const void* x = nullptr;
  int64_t x_strides[kMaxRank] = {};
  void* result = nullptr;
  int64_t result_strides[kMaxRank] = {};
};
cudaError_t Copy(const CopyArgs& args, cudaStream_t stream);

}  // namespace latentd::backends::cuda::kernels
