// Convolutions: of one pixel as a matrix product; 3x3 ones that keep an image's size and have few
// channels on one side by a kernel of our own, in f16 and bf16; else by cuDNN where it has the
// shape, else as a product with patches of the image, some pixels at a time. In f32 always as a
// product, unless it may be rounded to TF32: cuDNN would do so or has no fast one.
//
// Convolutions of 8-bit floats that our own kernel does not have are such products, too.
//
// Internal to this directory.
#pragma once

#include "core/backends/cuda/binders/binders.h"

namespace latentd::backends::cuda {

// conv2d or f8_conv2d, with operands as their kernels have them.
absl::StatusOr<BoundKernel> BindConvolutionAsProducts(const BinderArguments& a);

}  // namespace latentd::backends::cuda
