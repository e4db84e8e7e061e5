#include "core/backends/cuda/binders/packing.h"

#include "absl/status/statusor.h"
#include "absl/strings/str_cat.h"
#include "core/backends/cuda/kernels/movement/strided.h"
#include "core/backends/cuda/kernels/products/doubling_weight.h"
#include "core/backends/cuda/kernels/products/f8_linear_geglu.h"
#include "core/backends/cuda/kernels/products/linear_geglu.h"
#include "core/device/cuda/cuda_status.h"

namespace latentd::backends::cuda {

using device::cuda::ToStatus;

absl::StatusOr<size_t> PackedBytes(absl::string_view form, device::DType dtype,
                                   const device::Shape& shape) {
  if (form == kChannelsLastForm && shape.rank() == 4) {
    return static_cast<size_t>(shape.elements() * device::SizeOf(dtype));
  }
  if (form == kGatedForm && shape.rank() == 2 && shape[0] % 32 == 0) {
    return static_cast<size_t>(shape.elements() * device::SizeOf(dtype));
  }
  if (form == kF8GatedForm && dtype == device::DType::kF8E4M3 && shape.rank() == 2 &&
      kernels::HasF8LinearGeglu({.columns = shape[0] / 2, .depth = shape[1]})) {
    return static_cast<size_t>(shape.elements());
  }
  if (form == kDoublingForm && shape.rank() == 4 && shape[2] == 3 && shape[3] == 3) {
    return static_cast<size_t>(shape[0] * shape[1] * 16 * device::SizeOf(dtype));
  }
  return absl::UnimplementedError(absl::StrCat("the CUDA backend packs no weight as ", form));
}

absl::Status PackChannelsLast(device::DType dtype, const device::Shape& shape, const void* plain,
                              void* packed, cudaStream_t stream) {
  const int64_t out = shape[0], in = shape[1], height = shape[2], width = shape[3];
  const kernels::CopyArgs args = {.element = static_cast<kernels::Element>(dtype),
                                  .rank = 4,
                                  .sizes = {out, height, width, in},
                                  .x = plain,
                                  .x_strides = {in * height * width, width, 1, height * width},
                                  .result = packed,
                                  .result_strides = {height * width * in, width * in, in, 1}};
  return ToStatus(kernels::Copy(args, stream), "packing a weight");
}

absl::Status PackGated(device::DType dtype, const device::Shape& shape, const void* plain,
                       void* packed, cudaStream_t stream) {
  const int64_t depth = shape[1];
  const kernels::GatedRow lines(shape[0] / 2);
  kernels::CopyArgs args = {.element = static_cast<kernels::Element>(dtype),
                            .rank = kernels::GatedRow::kRank + 1,
                            .x = plain,
                            .result = packed};
  int64_t step = shape.elements();
  for (int d = 0; d < kernels::GatedRow::kRank; ++d) {
    step /= lines.sizes[d];
    args.sizes[d] = lines.sizes[d];
    args.x_strides[d] = lines.strides[d] * depth;
    args.result_strides[d] = step;
  }
  args.sizes[kernels::GatedRow::kRank] = depth;
  args.x_strides[kernels::GatedRow::kRank] = args.result_strides[kernels::GatedRow::kRank] = 1;
  return ToStatus(kernels::Copy(args, stream), "packing a weight");
}

absl::Status PackDoubling(device::DType dtype, const device::Shape& shape, const void* plain,
                          void* packed, cudaStream_t stream) {
  const kernels::DoublingWeightArgs args = {.element = static_cast<kernels::Element>(dtype),
                                            .weight = plain,
                                            .result = packed,
                                            .out = shape[0],
                                            .in = shape[1]};
  return ToStatus(kernels::DoublingWeight(args, stream), "packing a weight");
}

absl::Status Pack(absl::string_view form, device::DType dtype, const device::Shape& shape,
                  const void* plain, void* packed, cudaStream_t stream) {
  if (form == kGatedForm) return PackGated(dtype, shape, plain, packed, stream);
  if (form == kF8GatedForm) {
    return ToStatus(kernels::PackF8Gated(plain, packed, shape[0] / 2, shape[1], stream),
                    "packing a weight");
  }
  if (form == kDoublingForm) return PackDoubling(dtype, shape, plain, packed, stream);
  return PackChannelsLast(dtype, shape, plain, packed, stream);
}

}  // namespace latentd::backends::cuda
