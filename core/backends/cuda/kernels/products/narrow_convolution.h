// Convolutions with few channels on one side, as the first and the last of a UNet and of a VAE are:
// they are bound by the image on the other side, which is read or written once. A pixel's result is
// the same whatever rows are beside it.
#pragma once

#include <cuda_runtime_api.h>

#include <cstdint>

#include "core/backends/cuda/kernels/common/element.h"

namespace latentd::backends::cuda::kernels {

// x [rows, height, width, channels] with weight [out, 3, 3, channels] and a padding of 1 on each
// side, + bias [out] or null, to [rows, height, width, out]; f16 or bf16, dense, each at a multiple
// of 16 bytes. Sums are in f32. What is written overlaps nothing that is read.
struct NarrowConvolutionArgs {
  Element element = Element::kBF16;
  const void* x = nullptr;
  const void* weight = nullptr;
  const void* bias = nullptr;
  void* result = nullptr;
  int64_t rows = 0, height = 0, width = 0, channels = 0, out = 0;
};

// The most results of a convolution of few channels: their weights lie in a multiprocessor's own
// memory.
inline constexpr int64_t kMostOutOfFew = 512;

// To at most 8 channels from a multiple of 32, or from at most 8 to a multiple of 32 that is
// kMostOutOfFew at most; of images with less than 2^31 elements on either side, and neither so many
// nor so high that a grid has no blocks for them.
bool IsNarrow(const NarrowConvolutionArgs& args);

// cudaErrorInvalidValue: not IsNarrow.
cudaError_t NarrowConvolution(const NarrowConvolutionArgs& args, cudaStream_t stream);

// Its two kinds, each for what IsNarrow says of it.
cudaError_t ConvolutionToFew(const NarrowConvolutionArgs& args, cudaStream_t stream);
cudaError_t ConvolutionOfFew(const NarrowConvolutionArgs& args, cudaStream_t stream);

}  // namespace latentd::backends::cuda::kernels
