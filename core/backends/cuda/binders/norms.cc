#include "core/backends/cuda/binders/binders.h"
#include "core/backends/cuda/kernels/norms/group_norm.h"
#include "core/backends/cuda/kernels/norms/row_norms.h"

namespace latentd::backends::cuda {
namespace {

// The only operand as so many rows.
BoundKernel RowsKernel(const BinderArguments& a, int64_t rows,
                       cudaError_t (*launch)(const kernels::RowsArgs&, cudaStream_t)) {
  kernels::RowsArgs args;
  args.element = ElementOf(a.operand(0));
  args.rows = rows;
  args.size = a.operand(0).shape.elements() / rows;
  return OwnKernel(a, args, [launch, x = a.operand(0), y = a.result()](auto& args, const Frame& f) {
    args.x = BytesOf(x, f);
    args.result = BytesOf(y, f);
    args.workspace = f.workspace;
    return launch(args, f.stream);
  });
}

// x, gamma, beta, what is added to x or absent; and the scale of a result in 8 bits, or absent.
BoundKernel GroupNormKernel(const BinderArguments& a, const View& scale) {
  const auto& norm = std::get<graph::GroupNormAttributes>(a.instruction.attributes);
  const View x = a.operand(0), gamma = a.operand(1), beta = a.operand(2), addend = a.operand(3),
             y = a.result();
  kernels::GroupNormArgs args;
  args.element = ElementOf(x);
  args.nhwc = norm.layout == graph::Layout::kNhwc;
  args.addend_pitch = addend.present() ? addend.strides[0] : 0;
  args.rows = x.shape[0];
  args.channels = gamma.shape[0];
  args.pixels = x.shape.elements() / (args.rows * args.channels);
  args.groups = norm.groups;
  args.epsilon = norm.epsilon;
  if (a.instruction.activation == graph::Op::kSilu) {
    args.activation = kernels::UnaryFunction::kSilu;
  }
  BoundKernel kernel = OwnKernel(a, args, [=](auto& args, const Frame& f) {
    args.x = BytesOf(x, f);
    args.gamma = BytesOf(gamma, f);
    args.beta = BytesOf(beta, f);
    args.addend = addend.present() ? BytesOf(addend, f) : nullptr;
    args.f8_scale = scale.present() ? AddressOf<const float>(scale, f) : nullptr;
    args.result = BytesOf(y, f);
    args.workspace = f.workspace;
    return kernels::GroupNorm(args, f.stream);
  });
  kernel.workspace_bytes = kernels::GroupNormWorkspaceBytes(args.rows, args.groups);
  return kernel;
}

}  // namespace

absl::StatusOr<BoundKernel> BindGroupNorm(const BinderArguments& a) {
  return GroupNormKernel(a, View());
}

absl::StatusOr<BoundKernel> BindGroupNormF8(const BinderArguments& a) {
  return GroupNormKernel(a, a.operand(4));
}

absl::StatusOr<BoundKernel> BindLayerNorm(const BinderArguments& a) {
  kernels::LayerNormArgs args;
  args.element = ElementOf(a.operand(0));
  args.rows = RowsOf(a.operand(0));
  args.size = a.operand(0).shape[-1];
  args.epsilon = std::get<graph::LayerNormAttributes>(a.instruction.attributes).epsilon;
  return OwnKernel(a, args,
                   [x = a.operand(0), gamma = a.operand(1), beta = a.operand(2), y = a.result()](
                       auto& args, const Frame& f) {
                     args.x = BytesOf(x, f);
                     args.gamma = BytesOf(gamma, f);
                     args.beta = BytesOf(beta, f);
                     args.result = BytesOf(y, f);
                     return kernels::LayerNorm(args, f.stream);
                   });
}

absl::StatusOr<BoundKernel> BindSoftmax(const BinderArguments& a) {
  return RowsKernel(a, RowsOf(a.operand(0)), kernels::Softmax);
}

absl::StatusOr<BoundKernel> BindRowStd(const BinderArguments& a) {
  const int64_t rows = a.operand(0).shape[0], size = a.operand(0).shape.elements() / rows;
  BoundKernel kernel = RowsKernel(a, rows, kernels::RowStd);
  kernel.workspace_bytes = kernels::RowStdWorkspaceBytes(rows, size);
  return kernel;
}

absl::StatusOr<BoundKernel> BindIsFinite(const BinderArguments& a) {
  return RowsKernel(a, a.operand(0).shape[0], kernels::IsFinite);
}

}  // namespace latentd::backends::cuda
