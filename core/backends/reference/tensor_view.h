// Host Buffers and ATen Tensors see each other without a copy. Include it in .cc files only, since
// ATen's headers are slow to compile.
#pragma once

#include <ATen/core/TensorBody.h>

#include "core/device/buffer.h"

namespace latentd::backends::reference {

c10::ScalarType ToScalarType(device::DType dtype);

// A tensor over the buffer's memory. The buffer (or a copy of it) must outlive the tensor.
at::Tensor View(const device::ConstBuffer& buffer);

// A buffer over the tensor's memory, which it keeps alive. REQUIRES: a contiguous CPU tensor of one
// of our dtypes.
device::Buffer ToBuffer(const at::Tensor& tensor);

}  // namespace latentd::backends::reference
