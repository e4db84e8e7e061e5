#include "core/backends/cpu/binding/binders.h"
#include "core/backends/cpu/binding/element.h"

namespace latentd::backends::cpu {
namespace {

// The only operand, of f32, as so many rows.
BoundKernel RowsKernel(const BinderArguments& a, int64_t rows,
                       void (*run)(const float* x, float* y, int64_t rows, int64_t size)) {
  BoundKernel kernel;
  kernel.run = [x = a.operand(0), y = a.result(), rows, run](const Frame& f) {
    run(AddressOf<float>(x, f), AddressOf<float>(y, f), rows, x.shape.elements() / rows);
    return absl::OkStatus();
  };
  return kernel;
}

}  // namespace

absl::StatusOr<BoundKernel> BindGroupNorm(const BinderArguments& a) {
  const auto& norm = std::get<graph::GroupNormAttributes>(a.instruction.attributes);
  const bool nhwc = norm.layout == graph::Layout::kNhwc;
  const View x = a.operand(0), gamma = a.operand(1), beta = a.operand(2), added = a.operand(3),
             y = a.result();
  GroupNormArguments arguments = {};
  arguments.element = ElementOf(x.dtype);
  arguments.added_pitch = added.present() ? added.strides[0] : 0;
  arguments.rows = x.shape[0];
  arguments.channels = gamma.shape[0];
  arguments.pixels = x.shape.elements() / (arguments.rows * arguments.channels);
  arguments.groups = norm.groups;
  arguments.epsilon = norm.epsilon;
  arguments.silu = a.instruction.activation == graph::Op::kSilu;
  arguments.threads = a.machine.threads;

  const KernelTable& kernels = *a.machine.kernels;
  BoundKernel kernel;
  kernel.workspace_bytes =
      kernels.group_norm_workspace(arguments.rows, arguments.channels, arguments.threads);
  kernel.run = [=, run = nhwc ? kernels.group_norm_nhwc
                              : kernels.group_norm_nchw](const Frame& f) mutable {
    arguments.x = BytesOf(x, f);
    arguments.y = BytesOf(y, f);
    arguments.gamma = AddressOf<const float>(gamma, f);
    arguments.beta = AddressOf<const float>(beta, f);
    arguments.added = added.present() ? BytesOf(added, f) : nullptr;
    arguments.workspace = f.workspace;
    run(arguments);
    return absl::OkStatus();
  };
  return kernel;
}

absl::StatusOr<BoundKernel> BindLayerNorm(const BinderArguments& a) {
  BoundKernel kernel;
  kernel.run = [x = a.operand(0), gamma = a.operand(1), beta = a.operand(2), y = a.result(),
                epsilon = std::get<graph::LayerNormAttributes>(a.instruction.attributes).epsilon,
                run = a.machine.kernels->layer_norm](const Frame& f) {
    run(ElementOf(x.dtype), BytesOf(x, f), BytesOf(y, f), AddressOf<float>(gamma, f),
        AddressOf<float>(beta, f), RowsOf(x), x.shape[-1], epsilon);
    return absl::OkStatus();
  };
  return kernel;
}

absl::StatusOr<BoundKernel> BindSoftmax(const BinderArguments& a) {
  return RowsKernel(a, RowsOf(a.operand(0)), a.machine.kernels->softmax);
}

absl::StatusOr<BoundKernel> BindRowStd(const BinderArguments& a) {
  return RowsKernel(a, a.operand(0).shape[0], a.machine.kernels->row_std);
}

absl::StatusOr<BoundKernel> BindIsFinite(const BinderArguments& a) {
  BoundKernel kernel;
  kernel.run = [x = a.operand(0), y = a.result(),
                run = a.machine.kernels->is_finite](const Frame& f) {
    run(ElementOf(x.dtype), BytesOf(x, f), AddressOf<uint8_t>(y, f), x.shape[0],
        x.shape.elements() / x.shape[0]);
    return absl::OkStatus();
  };
  return kernel;
}

}  // namespace latentd::backends::cpu
