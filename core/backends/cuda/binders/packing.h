// The forms in which this backend holds weights, and how they are made on the device:
//
//   channels-last  of a convolution: [out, in, height, width] as [out, height, width, in]
//   gated          of a linear layer that GEGLU alone reads: its lines as kernels::GatedRow says
//   gated-8        the same of 8-bit floats: as kernels::F8GatedLine says
//   doubling       of a 3x3 convolution that reads an upsampled image: [out, in, 3, 3] as
//                  [in, 4, 4, out], as kernels::DoublingWeight says
//
// Internal to this directory.
#pragma once

#include <cuda_runtime_api.h>

#include "absl/status/status.h"
#include "absl/strings/string_view.h"
#include "core/device/buffer.h"

namespace latentd::backends::cuda {

inline constexpr absl::string_view kChannelsLastForm = "channels-last", kGatedForm = "gated",
                                   kF8GatedForm = "gated-8", kDoublingForm = "doubling";

// Bytes of a plain result in that form. UNIMPLEMENTED: there is none.
absl::StatusOr<size_t> PackedBytes(absl::string_view form, device::DType dtype,
                                   const device::Shape& shape);

// REQUIRES: PackedBytes of it. Both are on the device and do not overlap.
absl::Status Pack(absl::string_view form, device::DType dtype, const device::Shape& shape,
                  const void* plain, void* packed, cudaStream_t stream);

absl::Status PackChannelsLast(device::DType dtype, const device::Shape& shape, const void* plain,
                              void* packed, cudaStream_t stream);

}  // namespace latentd::backends::cuda
