// Float dtypes as the kernels name them.
//
// Internal to this directory.
#pragma once

#include <cstddef>
#include <cstdint>

#include "core/backends/cpu/kernels/kernel_table.h"
#include "core/device/buffer.h"

namespace latentd::backends::cpu {

bool IsFloat(device::DType dtype);

// REQUIRES: IsFloat(dtype).
Element ElementOf(device::DType dtype);

// `plain` itself if it is f32, else a copy that is.
device::ConstBuffer InFloat32(const device::ConstBuffer& plain);
void ConvertToFloat32(const device::ConstBuffer& plain, void* wide);
// Bytes of that copy; 0 if there is none.
size_t Float32CopyBytes(device::DType plain, int64_t elements);

}  // namespace latentd::backends::cpu
