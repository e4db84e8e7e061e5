#include "core/backends/cuda/kernels/values/elementwise.h"

#include <algorithm>

#include "absl/strings/str_cat.h"
#include "core/backends/cuda/binders/binders.h"
#include "core/backends/cuda/kernels/movement/strided.h"
#include "core/backends/lowering/functions.h"
#include "core/base/errors/status_macros.h"

namespace latentd::backends::cuda {
namespace {

void CopyDimensions(const View& view, int64_t* strides) {
  std::copy(view.strides.begin(), view.strides.end(), strides);
}

}  // namespace

absl::StatusOr<BoundKernel> BindUnary(const BinderArguments& a) {
  kernels::UnaryArgs args;
  ASSIGN_OR_RETURN(args.function,
                   lowering::UnaryFunctionOf<kernels::UnaryFunction>(a.instruction.op));
  args.element = ElementOf(a.operand(0));
  args.size = a.result().shape.elements();
  return OwnKernel(a, args, [x = a.operand(0), y = a.result()](auto& args, const Frame& f) {
    args.x = BytesOf(x, f);
    args.result = BytesOf(y, f);
    return kernels::Unary(args, f.stream);
  });
}

absl::StatusOr<BoundKernel> BindClamp(const BinderArguments& a) {
  const auto& clamp = std::get<graph::ClampAttributes>(a.instruction.attributes);
  kernels::ClampArgs args;
  args.min = clamp.min;
  args.max = clamp.max;
  args.element = ElementOf(a.operand(0));
  args.size = a.result().shape.elements();
  return OwnKernel(a, args, [x = a.operand(0), y = a.result()](auto& args, const Frame& f) {
    args.x = BytesOf(x, f);
    args.result = BytesOf(y, f);
    return kernels::Clamp(args, f.stream);
  });
}

absl::StatusOr<BoundKernel> BindGeglu(const BinderArguments& a) {
  kernels::GegluArgs args;
  args.element = ElementOf(a.operand(0));
  args.rows = RowsOf(a.result());
  args.channels = a.result().shape[-1];
  return OwnKernel(a, args, [x = a.operand(0), y = a.result()](auto& args, const Frame& f) {
    args.x = BytesOf(x, f);
    args.result = BytesOf(y, f);
    return kernels::Geglu(args, f.stream);
  });
}

absl::StatusOr<BoundKernel> BindBinary(const BinderArguments& a) {
  const View &left = a.operand(0), &right = a.operand(1), &y = a.result();
  kernels::BinaryArgs args;
  ASSIGN_OR_RETURN(args.function,
                   lowering::BinaryFunctionOf<kernels::BinaryFunction>(a.instruction.op));
  args.element = ElementOf(y);
  args.rank = y.shape.rank();
  for (int d = 0; d < args.rank; ++d) args.sizes[d] = y.shape[d];
  CopyDimensions(left, args.a_strides);
  CopyDimensions(right, args.b_strides);
  CopyDimensions(y, args.result_strides);
  return OwnKernel(a, args, [left, right, y](auto& args, const Frame& f) {
    args.a = BytesOf(left, f);
    args.b = BytesOf(right, f);
    args.result = BytesOf(y, f);
    return kernels::Binary(args, f.stream);
  });
}

absl::StatusOr<BoundKernel> BindCopy(const BinderArguments& a) {
  const View &x = a.operand(0), &y = a.result();
  kernels::CopyArgs args;
  args.element = ElementOf(x);
  args.rank = y.shape.rank();
  for (int d = 0; d < args.rank; ++d) args.sizes[d] = y.shape[d];
  CopyDimensions(x, args.x_strides);
  CopyDimensions(y, args.result_strides);
  return OwnKernel(a, args, [x, y](auto& args, const Frame& f) {
    args.x = BytesOf(x, f);
    args.result = BytesOf(y, f);
    return kernels::Copy(args, f.stream);
  });
}

absl::StatusOr<BoundKernel> BindCast(const BinderArguments& a) {
  const View &x = a.operand(0), &y = a.result();
  if (x.dtype != y.dtype && !IsFloat(y.dtype)) {
    return absl::UnimplementedError(
        absl::StrCat("the CUDA backend does not cast to ", device::Name(y.dtype)));
  }
  if (x.dtype == y.dtype) return BindCopy(a);
  kernels::CastArgs args;
  args.from = ElementOf(x);
  args.to = ElementOf(y);
  args.size = y.shape.elements();
  return OwnKernel(a, args, [x, y](auto& args, const Frame& f) {
    args.x = BytesOf(x, f);
    args.result = BytesOf(y, f);
    return kernels::Cast(args, f.stream);
  });
}

absl::StatusOr<BoundKernel> BindToPixels(const BinderArguments& a) {
  kernels::ToPixelsArgs args;
  args.element = ElementOf(a.operand(0));
  args.size = a.result().shape.elements();
  return OwnKernel(a, args, [x = a.operand(0), y = a.result()](auto& args, const Frame& f) {
    args.x = BytesOf(x, f);
    args.result = AddressOf<uint8_t>(y, f);
    return kernels::ToPixels(args, f.stream);
  });
}

absl::StatusOr<BoundKernel> BindIncrement(const BinderArguments& a) {
  kernels::IncrementArgs args;
  args.size = a.result().shape.elements();
  return OwnKernel(a, args, [x = a.operand(0), y = a.result()](auto& args, const Frame& f) {
    args.x = AddressOf<int64_t>(x, f);
    args.result = AddressOf<int64_t>(y, f);
    return kernels::Increment(args, f.stream);
  });
}

}  // namespace latentd::backends::cuda
