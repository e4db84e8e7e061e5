// Convolutions of 8-bit floats: on a Hopper by a kernel of our own, else as matrix products.
#include "core/backends/cuda/kernels/products/f8_convolution.h"

#include "core/backends/cuda/binders/convolution.h"
#include "core/backends/cuda/binders/f8.h"
#include "core/backends/cuda/binders/packed_weight.h"

namespace latentd::backends::cuda {
namespace {

kernels::F8ConvolutionArgs F8ConvolutionOf(const BinderArguments& a) {
  const graph::Shape& x = a.operand(0).shape;
  return {
      .rows = x[0], .height = x[1], .width = x[2], .channels = x[3], .out = a.operand(1).shape[0]};
}

bool HasOwnF8Convolution(const BinderArguments& a) {
  const graph::Shape& weight = a.operand(1).shape;
  const auto& conv = std::get<graph::F8Conv2dAttributes>(a.instruction.attributes);
  const bool keeps_size = weight[2] == 3 && weight[3] == 3 && conv.stride == 1 &&
                          conv.padding == graph::Padding{1, 1, 1, 1};
  for (const View* view : {&a.operand(0), &a.operand(3), &a.operand(4), &a.result()}) {
    if (view->present() && AlignmentOf(a.program, *view, {}) < kPortAlignment) return false;
  }
  return keeps_size && conv.to == device::DType::kBF16 && IsHopper(a.gpu.device.properties()) &&
         kernels::HasF8Convolution(F8ConvolutionOf(a));
}

BoundKernel BindOwnF8Convolution(const BinderArguments& a) {
  const PackedWeight weight(a);
  BoundKernel kernel = weight.Reader();
  kernel.enqueue = [weight, args = F8ConvolutionOf(a), x = a.operand(0), scale = a.operand(2),
                    bias = a.operand(3), residual = a.operand(4),
                    y = a.result()](const Frame& f) -> absl::Status {
    kernels::F8ConvolutionArgs placed = args;
    ASSIGN_OR_RETURN(placed.weight, weight.Enqueue(f, f.workspace));
    placed.x = BytesOf(x, f);
    placed.scale = AddressOf<const float>(scale, f);
    placed.bias = bias.present() ? BytesOf(bias, f) : nullptr;
    placed.residual = residual.present() ? BytesOf(residual, f) : nullptr;
    placed.result = BytesOf(y, f);
    return Launched(kernels::F8Convolution(placed, f.stream), graph::Op::kF8Conv2d);
  };
  return kernel;
}

}  // namespace

absl::StatusOr<BoundKernel> BindF8Convolution(const BinderArguments& a) {
  RETURN_IF_ERROR(CheckHasF8(a.gpu.device.properties()));
  return HasOwnF8Convolution(a) ? BindOwnF8Convolution(a) : BindConvolutionAsProducts(a);
}

}  // namespace latentd::backends::cuda
