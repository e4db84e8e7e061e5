#include "core/backends/cuda/binders/f8.h"

#include "core/backends/cuda/binders/product.h"
#include "core/backends/cuda/kernels/norms/row_norms.h"
#include "core/backends/cuda/kernels/products/f8_product.h"
#include "core/backends/cuda/kernels/values/elementwise.h"
#include "core/backends/cuda/kernels/values/f8.h"
#include "core/base/errors/status_macros.h"

namespace latentd::backends::cuda {
namespace {

// The first GPUs that multiply 8-bit floats: Ada's.
constexpr int kFirstWithF8 = 89;

// True where our own product was measured to be faster than cuBLASLt's (docs/performance.md): its
// tiles leave few multiprocessors without work, and it has a residual to read, or more tiles than
// multiprocessors, so that one's results are written while the next is computed.
bool OwnF8ProductIsFaster(const kernels::F8ProductArgs& args, bool has_residual,
                          int64_t multiprocessors) {
  if (args.columns % kernels::kF8ProductColumns != 0) return false;
  const int64_t tiles = (args.rows + kernels::kF8ProductRows - 1) / kernels::kF8ProductRows *
                        (args.columns / kernels::kF8ProductColumns);
  const int64_t rounds = (tiles + multiprocessors - 1) / multiprocessors;
  return tiles * 10 >= rounds * multiprocessors * 9 && (has_residual || rounds > 1);
}

bool HasOwnF8Product(const BinderArguments& a, const kernels::F8ProductArgs& args) {
  for (const View* view :
       {&a.operand(0), &a.operand(1), &a.operand(3), &a.operand(4), &a.result()}) {
    if (view->present() && AlignmentOf(a.program, *view, {}) < kPortAlignment) return false;
  }
  const device::cuda::CudaProperties& gpu = a.gpu.device.properties();
  return IsHopper(gpu) && a.result().dtype == device::DType::kBF16 && kernels::HasF8Product(args) &&
         OwnF8ProductIsFaster(args, a.operand(4).present(), gpu.multiprocessors);
}

BoundKernel BindOwnF8Product(const BinderArguments& a, const kernels::F8ProductArgs& args) {
  return OwnKernel(
      a, args,
      [x = a.operand(0), weight = a.operand(1), scale = a.operand(2), bias = a.operand(3),
       residual = a.operand(4), y = a.result()](auto& args, const Frame& f) {
        args.x = BytesOf(x, f);
        args.weight = BytesOf(weight, f);
        args.scale = AddressOf<const float>(scale, f);
        args.bias = bias.present() ? BytesOf(bias, f) : nullptr;
        args.residual = residual.present() ? BytesOf(residual, f) : nullptr;
        args.result = BytesOf(y, f);
        return kernels::F8Product(args, f.stream);
      });
}

}  // namespace

absl::Status CheckHasF8(const device::cuda::CudaProperties& properties) {
  if (properties.compute_capability >= kFirstWithF8) return absl::OkStatus();
  return absl::UnimplementedError(
      absl::StrCat(properties.name, " (compute capability ", properties.compute_capability / 10,
                   ".", properties.compute_capability % 10,
                   ") has no 8-bit products, which came with 8.9: run it with --precision=bf16"));
}

absl::StatusOr<BoundKernel> BindRowNorm(const BinderArguments& a) {
  kernels::RowNormArgs args;
  args.euclidean = std::get<graph::RowNormAttributes>(a.instruction.attributes).euclidean;
  args.rows = a.operand(0).shape[0];
  args.size = a.operand(0).shape.elements() / args.rows;
  return OwnKernel(a, args, [x = a.operand(0), y = a.result()](auto& args, const Frame& f) {
    args.x = AddressOf<const float>(x, f);
    args.result = AddressOf<float>(y, f);
    return kernels::RowNorm(args, f.stream);
  });
}

absl::StatusOr<BoundKernel> BindF8Scale(const BinderArguments& a) {
  kernels::F8ScaleArgs args;
  args.size = a.result().shape.elements();
  return OwnKernel(a, args, [x = a.operand(0), y = a.result()](auto& args, const Frame& f) {
    args.x = AddressOf<const float>(x, f);
    args.result = AddressOf<float>(y, f);
    return kernels::F8Scale(args, f.stream);
  });
}

absl::StatusOr<BoundKernel> BindQuantize(const BinderArguments& a) {
  kernels::QuantizeArgs args;
  args.element = ElementOf(a.operand(0));
  args.size = a.result().shape.elements();
  return OwnKernel(
      a, args,
      [x = a.operand(0), scale = a.operand(1), y = a.result()](auto& args, const Frame& f) {
        args.x = BytesOf(x, f);
        args.scale = AddressOf<const float>(scale, f);
        args.result = BytesOf(y, f);
        return kernels::Quantize(args, f.stream);
      });
}

absl::StatusOr<BoundKernel> BindLayerNormF8(const BinderArguments& a) {
  kernels::LayerNormArgs args;
  args.element = ElementOf(a.operand(0));
  args.rows = RowsOf(a.operand(0));
  args.size = a.operand(0).shape[-1];
  args.epsilon = std::get<graph::LayerNormAttributes>(a.instruction.attributes).epsilon;
  return OwnKernel(a, args,
                   [x = a.operand(0), gamma = a.operand(1), beta = a.operand(2),
                    scale = a.operand(3), y = a.result()](auto& args, const Frame& f) {
                     args.x = BytesOf(x, f);
                     args.gamma = BytesOf(gamma, f);
                     args.beta = BytesOf(beta, f);
                     args.f8_scale = AddressOf<const float>(scale, f);
                     args.result = BytesOf(y, f);
                     return kernels::LayerNorm(args, f.stream);
                   });
}

absl::StatusOr<BoundKernel> BindGegluF8(const BinderArguments& a) {
  kernels::GegluArgs args;
  args.element = ElementOf(a.operand(0));
  args.rows = RowsOf(a.result());
  args.channels = a.result().shape[-1];
  return OwnKernel(
      a, args,
      [x = a.operand(0), scale = a.operand(1), y = a.result()](auto& args, const Frame& f) {
        args.x = BytesOf(x, f);
        args.f8_scale = AddressOf<const float>(scale, f);
        args.result = BytesOf(y, f);
        return kernels::Geglu(args, f.stream);
      });
}

absl::StatusOr<BoundKernel> BindF8Linear(const BinderArguments& a) {
  RETURN_IF_ERROR(CheckHasF8(a.gpu.device.properties()));
  const graph::Shape& weight = a.operand(1).shape;
  const kernels::F8ProductArgs own = {
      .rows = RowsOf(a.operand(0)), .columns = weight[0], .depth = weight[1]};
  if (HasOwnF8Product(a, own)) return BindOwnF8Product(a, own);
  return BindWeightProduct(a, {.x = a.operand(0),
                               .weight = a.operand(1),
                               .scale = a.operand(2),
                               .bias = a.operand(3),
                               .residual = a.operand(4)});
}

}  // namespace latentd::backends::cuda
