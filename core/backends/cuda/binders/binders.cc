#include "core/backends/cuda/binders/binders.h"

#include <algorithm>
#include <numeric>

#include "absl/strings/str_cat.h"
#include "core/device/cuda/cuda_status.h"
#include "core/graph/op_table.h"

namespace latentd::backends::cuda {

absl::Status Launched(cudaError_t error, graph::Op op) {
  if (error == cudaSuccess) return absl::OkStatus();
  return device::cuda::ToStatus(error, absl::StrCat("launching ", graph::RowOf(op).name));
}

int64_t AlignmentOf(const Program& program, const View& view, absl::Span<const int64_t> strides) {
  const Place place = program.storages[view.storage].place;
  const bool callers = place == Place::kInput || place == Place::kOutput;
  const int64_t bytes = device::SizeOf(view.dtype);
  int64_t alignment = std::gcd(callers ? kPortAlignment : kPlaceAlignment, view.offset * bytes);
  for (const int64_t stride : strides) alignment = std::gcd(alignment, stride * bytes);
  return alignment;
}

bool BeginAtWords(const BinderArguments& a) {
  const auto is_aligned = [&](const View& view) {
    return !view.present() || AlignmentOf(a.program, view, {}) >= kPortAlignment;
  };
  const std::vector<View>& operands = a.instruction.operands;
  return is_aligned(a.result()) && std::all_of(operands.begin(), operands.end(), is_aligned);
}

bool CudnnReads(const BinderArguments& a) {
  return (a.gpu.tf32 || a.operand(0).dtype != device::DType::kF32) && BeginAtWords(a);
}

}  // namespace latentd::backends::cuda
