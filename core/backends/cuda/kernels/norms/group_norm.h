// Group norm of images, with what UNets put before and after it.
//
// On Hopper one launch, where an NHWC image fits into its multiprocessors' own memory. Else two:
// the moments of groups, for which many blocks share a group, then the result. What comes of a row
// is the same whatever rows are beside it. Statistics are in f32, by Chan's merging. Where every
// pixel (NHWC) or every channel (NCHW) begins at a multiple of 16 bytes, 16 bytes are read and
// written at a time.
#pragma once

#include <cuda_runtime_api.h>

#include <cstddef>
#include <cstdint>

#include "core/backends/cuda/kernels/common/element.h"
#include "core/backends/cuda/kernels/values/elementwise.h"

namespace latentd::backends::cuda::kernels {

// The most in NHWC; with more, cudaErrorInvalidValue.
inline constexpr int64_t kMaxNhwcChannels = 4096, kMaxNhwcGroups = 1024;

// Everything of one float type. `pixels` is height * width; groups divide channels.
struct GroupNormArgs {
  Element element = Element::kF32;
  bool nhwc = true;  // x and result are [rows, pixels, channels], else [rows, channels, pixels]
  const void* x = nullptr;
  const void* addend = nullptr;  // [rows, channels], added to x before, or null
  int64_t addend_pitch = 0;      // elements from a row of it to the next
  const void* gamma = nullptr;   // [channels]
  const void* beta = nullptr;    // [channels]
  void* result = nullptr;        // may be x, unless it is e4m3
  UnaryFunction activation = UnaryFunction::kIdentity;
  int64_t rows = 0, pixels = 0, channels = 0, groups = 1;
  float epsilon = 1e-5f;
  void* workspace = nullptr;  // GroupNormWorkspaceBytes, aligned to 4; used until the call has run
  // On the device, a power of two: the result is divided by it and e4m3, as Quantize (f8.h) makes
  // it. NHWC and SiLU only; else cudaErrorInvalidValue. Null: the result is as x is.
  const float* f8_scale = nullptr;
};
size_t GroupNormWorkspaceBytes(int64_t rows, int64_t groups);
cudaError_t GroupNorm(const GroupNormArgs& args, cudaStream_t stream);

// The one launch. has: whether the image and the GPU are ones for it; if not, nothing is launched.
cudaError_t GroupNormSlab(const GroupNormArgs& args, cudaStream_t stream, bool& has);

}  // namespace latentd::backends::cuda::kernels
