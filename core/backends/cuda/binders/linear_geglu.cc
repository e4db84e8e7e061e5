// A linear layer and the GEGLU that alone reads it: in one launch where there is a kernel for it,
// else the linear layer into the workspace and GEGLU of that.
#include "core/backends/cuda/kernels/linear_geglu.h"

#include "core/backends/cuda/binders/packing.h"
#include "core/backends/cuda/binders/product.h"
#include "core/backends/cuda/kernels/elementwise.h"
#include "core/base/alignment.h"
#include "core/base/errors/status_macros.h"

namespace latentd::backends::cuda {
namespace {

// Alignment of operands and result in bytes.
constexpr int64_t kFusedAlignment = 16;

kernels::LinearGegluArgs ArgumentsOf(const BinderArguments& a) {
  const graph::Shape& weight = a.operand(1).shape;
  kernels::LinearGegluArgs args;
  args.element = ElementOf(a.operand(0));
  args.rows = RowsOf(a.operand(0));
  args.columns = weight[0] / 2;
  args.depth = weight[1];
  return args;
}

bool HasFused(const BinderArguments& a) {
  for (const View* view : {&a.operand(0), &a.operand(2), &a.result()}) {
    if (view->present() && AlignmentOf(a.program, *view, {}) < kFusedAlignment) return false;
  }
  return IsHopper(a.gpu) && a.weight_is_held() && kernels::HasLinearGeglu(ArgumentsOf(a));
}

BoundKernel BindFused(const BinderArguments& a) {
  const View &x = a.operand(0), &weight = a.operand(1), &bias = a.operand(2), &y = a.result();
  BoundKernel kernel = OwnKernel(a, ArgumentsOf(a), [x, bias, y](auto& args, const Frame& f) {
    args.x = BytesOf(x, f);
    args.weight = f.packed;
    args.bias = bias.present() ? BytesOf(bias, f) : nullptr;
    args.result = BytesOf(y, f);
    return kernels::LinearGeglu(args, f.stream);
  });
  const int64_t bytes = weight.shape.elements() * device::SizeOf(weight.dtype);
  kernel.packing = {std::string(kGatedForm), static_cast<size_t>(bytes), 0};
  return kernel;
}

absl::StatusOr<BoundKernel> BindApart(const BinderArguments& a) {
  const View x = a.operand(0), weight = a.operand(1), y = a.result();
  const ProductBias bias(a, a.operand(2));
  const size_t halves_at = bias.workspace_bytes();
  const ProductShape shape = WeightProductShape(a);
  ASSIGN_OR_RETURN(const std::shared_ptr<const Product> product, BindProduct(a, shape));
  const size_t products_at =
      halves_at +
      RoundUp<size_t>(shape.rows * shape.columns * device::SizeOf(x.dtype), kPlaceAlignment);
  kernels::GegluArgs geglu;
  geglu.element = ElementOf(x);
  geglu.rows = shape.rows;
  geglu.channels = shape.columns / 2;
  BoundKernel kernel = OwnKernel(a, geglu, [halves_at, y](auto& args, const Frame& f) {
    args.x = f.workspace + halves_at;
    args.result = BytesOf(y, f);
    return kernels::Geglu(args, f.stream);
  });
  kernel.workspace_bytes = products_at + product->workspace_bytes();
  kernel.enqueue = [=, apply_geglu = std::move(kernel.enqueue)](const Frame& f) -> absl::Status {
    ASSIGN_OR_RETURN(const void* const read, bias.Enqueue(f));
    RETURN_IF_ERROR(product->Enqueue({.a = BytesOf(x, f),
                                      .b = BytesOf(weight, f),
                                      .bias = read,
                                      .result = f.workspace + halves_at,
                                      .workspace = f.workspace + products_at},
                                     f.stream));
    return apply_geglu(f);
  };
  return kernel;
}

}  // namespace

absl::StatusOr<BoundKernel> BindLinearGeglu(const BinderArguments& a) {
  if (HasFused(a)) return BindFused(a);
  return BindApart(a);
}

}  // namespace latentd::backends::cuda
