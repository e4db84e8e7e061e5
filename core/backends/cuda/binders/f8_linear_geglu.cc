// An 8-bit linear layer, the GEGLU that alone reads it, and what quantises that: in one launch
// where there is a kernel for it, else the linear layer into the workspace and GEGLU of that.
#include "core/backends/cuda/kernels/products/f8_linear_geglu.h"

#include "core/backends/cuda/binders/f8.h"
#include "core/backends/cuda/binders/packing.h"
#include "core/backends/cuda/binders/product.h"
#include "core/backends/cuda/kernels/values/elementwise.h"
#include "core/base/alignment.h"
#include "core/base/errors/status_macros.h"

namespace latentd::backends::cuda {
namespace {

// The dtype of the linear layer.
device::DType LinearDType(const BinderArguments& a) {
  return std::get<graph::F8LinearAttributes>(a.instruction.attributes).to;
}

kernels::F8LinearGegluArgs F8ArgumentsOf(const BinderArguments& a) {
  const graph::Shape& weight = a.operand(1).shape;
  kernels::F8LinearGegluArgs args;
  args.element = static_cast<kernels::Element>(LinearDType(a));
  args.rows = RowsOf(a.operand(0));
  args.columns = weight[0] / 2;
  args.depth = weight[1];
  return args;
}

bool HasF8Fused(const BinderArguments& a) {
  for (const View* view : {&a.operand(0), &a.operand(3), &a.result()}) {
    if (view->present() && AlignmentOf(a.program, *view, {}) < kPortAlignment) return false;
  }
  return IsHopper(a.gpu) && a.weight_is_held() && kernels::HasF8LinearGeglu(F8ArgumentsOf(a));
}

BoundKernel BindF8Fused(const BinderArguments& a) {
  BoundKernel kernel =
      OwnKernel(a, F8ArgumentsOf(a),
                [x = a.operand(0), scale = a.operand(2), bias = a.operand(3),
                 result_scale = a.operand(4), y = a.result()](auto& args, const Frame& f) {
                  args.x = BytesOf(x, f);
                  args.weight = f.packed;
                  args.scale = AddressOf<const float>(scale, f);
                  args.bias = bias.present() ? BytesOf(bias, f) : nullptr;
                  args.result_scale = AddressOf<const float>(result_scale, f);
                  args.result = BytesOf(y, f);
                  return kernels::F8LinearGeglu(args, f.stream);
                });
  const auto bytes = static_cast<size_t>(a.operand(1).shape.elements());
  kernel.packing = {std::string(kF8GatedForm), bytes, 0};
  return kernel;
}

BoundKernel BindGegluOf(const BinderArguments& a, const ProductShape& shape, size_t halves_at) {
  kernels::GegluArgs geglu;
  geglu.element = static_cast<kernels::Element>(LinearDType(a));
  geglu.rows = shape.rows;
  geglu.channels = shape.columns / 2;
  return OwnKernel(a, geglu,
                   [halves_at, scale = a.operand(4), y = a.result()](auto& args, const Frame& f) {
                     args.x = f.workspace + halves_at;
                     args.f8_scale = AddressOf<const float>(scale, f);
                     args.result = BytesOf(y, f);
                     return kernels::Geglu(args, f.stream);
                   });
}

absl::StatusOr<BoundKernel> BindF8Apart(const BinderArguments& a) {
  const View x = a.operand(0), weight = a.operand(1), scale = a.operand(2);
  const ProductBias bias(a, a.operand(3));
  const size_t halves_at = bias.workspace_bytes();
  ProductShape shape = WeightProductShape(a);
  shape.has_bias = a.operand(3).present();
  shape.result.dtype = LinearDType(a);
  ASSIGN_OR_RETURN(const std::shared_ptr<const Product> product, BindProduct(a, shape));
  const size_t products_at =
      halves_at + RoundUp<size_t>(shape.rows * shape.columns * device::SizeOf(shape.result.dtype),
                                  kPlaceAlignment);
  BoundKernel kernel = BindGegluOf(a, shape, halves_at);
  kernel.workspace_bytes = products_at + product->workspace_bytes();
  kernel.enqueue = [=, apply_geglu = std::move(kernel.enqueue)](const Frame& f) -> absl::Status {
    ASSIGN_OR_RETURN(const void* const read, bias.Enqueue(f));
    RETURN_IF_ERROR(product->Enqueue({.a = BytesOf(x, f),
                                      .b = BytesOf(weight, f),
                                      .f8_scale = BytesOf(scale, f),
                                      .bias = read,
                                      .result = f.workspace + halves_at,
                                      .workspace = f.workspace + products_at},
                                     f.stream));
    return apply_geglu(f);
  };
  return kernel;
}

}  // namespace

absl::StatusOr<BoundKernel> BindF8LinearGeglu(const BinderArguments& a) {
  RETURN_IF_ERROR(CheckHasF8(a.gpu.device.properties()));
  return HasF8Fused(a) ? BindF8Fused(a) : BindF8Apart(a);
}

}  // namespace latentd::backends::cuda
