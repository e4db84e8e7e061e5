// Kernels whose every element of the result comes from its own elements of one operand. Operand and
// result are dense. They may begin anywhere that their elements may; at multiples of 16 bytes they
// are read and written 16 bytes at a time. A result may be written over its operand where both have
// elements of one size; otherwise they do not overlap. Floats are computed with in f32.
#pragma once

#include <cuda_runtime_api.h>

#include <cstdint>

#include "core/backends/cuda/kernels/common/element.h"

namespace latentd::backends::cuda::kernels {

enum class UnaryFunction : uint8_t {
  kIdentity,
  kSilu,
  kGelu,       // erf
  kQuickGelu,  // x sigmoid(1.702 x)
  kRelu,       // NaN stays NaN
  kTanh,
  kExp,
};

struct UnaryArgs {
  UnaryFunction function = UnaryFunction::kIdentity;
  Element element = Element::kF32;  // f32, f16, bf16
  const void* x = nullptr;
  void* result = nullptr;
  int64_t size = 0;  // elements
};
cudaError_t Unary(const UnaryArgs& args, cudaStream_t stream);

// NaN stays NaN.
struct ClampArgs {
  float min = 0, max = 1;
  Element element = Element::kF32;
  const void* x = nullptr;
  void* result = nullptr;
  int64_t size = 0;
};
cudaError_t Clamp(const ClampArgs& args, cudaStream_t stream);

// Any element to a float type, to nearest even; i64 goes through f32.
struct CastArgs {
  Element from = Element::kF32, to = Element::kF32;
  const void* x = nullptr;
  void* result = nullptr;
  int64_t size = 0;
};
cudaError_t Cast(const CastArgs& args, cudaStream_t stream);

// [-1, 1] -> u8: 255 clamp(x / 2 + 1 / 2, 0, 1), to nearest even; NaN becomes 0.
struct ToPixelsArgs {
  Element element = Element::kF32;
  const void* x = nullptr;
  uint8_t* result = nullptr;
  int64_t size = 0;
};
cudaError_t ToPixels(const ToPixelsArgs& args, cudaStream_t stream);

struct IncrementArgs {
  const int64_t* x = nullptr;
  int64_t* result = nullptr;
  int64_t size = 0;
};
cudaError_t Increment(const IncrementArgs& args, cudaStream_t stream);

// [rows, 2 channels] -> [rows, channels]: the first half times gelu of the second. Not in place.
// Read 16 bytes at a time only where that many divide a row.
struct GegluArgs {
  Element element = Element::kF32;
  const void* x = nullptr;
  void* result = nullptr;
  int64_t rows = 0, channels = 0;
  // Null: the result is of x's type. Else it is e4m3 of what is divided by this power of two, on
  // the device, as kernels/f8.h has it.
  const float* f8_scale = nullptr;
};
cudaError_t Geglu(const GegluArgs& args, cudaStream_t stream);

}  // namespace latentd::backends::cuda::kernels
