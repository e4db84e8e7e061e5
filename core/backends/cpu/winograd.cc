// 3x3 convolutions, of an image or of one that is upsampled to twice its size, by this backend's
// own kernel. In f32, also where the weight is not.
#include "absl/strings/str_cat.h"
#include "core/backends/cpu/binders.h"
#include "core/backends/cpu/element.h"

namespace latentd::backends::cpu {
namespace {

WinogradArguments ArgumentsOf(const BinderArguments& a) {
  const graph::Shape& x = a.operand(0).shape;
  const graph::Shape& y = a.result().shape;
  WinogradArguments arguments = {};
  arguments.rows = y[0];
  arguments.height = y[1];
  arguments.width = y[2];
  arguments.channels = x[3];
  arguments.out = y[3];
  arguments.upsampled = a.instruction.kernel == Kernel::kUpsampleConvolution;
  arguments.threads = a.machine.threads;
  return arguments;
}

// Vectors are as wide as the instruction set says, so it is part of the form's name.
weights::WeightFormat PackingOf(const KernelTable& kernels, const View& operand) {
  const graph::Shape& weight = operand.shape;
  weights::WeightFormat packing;
  packing.form = absl::StrCat("winograd-4x4 ", kernels.name);
  packing.bytes = kernels.winograd_weight_bytes(weight[1], weight[0]);
  packing.scratch_bytes = Float32CopyBytes(operand.dtype, weight.elements());
  packing.packer = [weight, &kernels, bytes = packing.bytes](
                       const device::Buffer& plain) -> absl::StatusOr<device::Buffer> {
    device::Buffer packed =
        device::Buffer::Allocate(device::DType::kU8, {static_cast<int64_t>(bytes)});
    kernels.winograd_pack(InFloat32(plain).as<float>().data(), weight[1], weight[0],
                          static_cast<float*>(packed.data()));
    return packed;
  };
  return packing;
}

}  // namespace

absl::StatusOr<BoundKernel> BindWinograd(const BinderArguments& a) {
  WinogradArguments arguments = ArgumentsOf(a);
  const View residual = a.instruction.operands.size() > 3 ? a.operand(3) : View();
  BoundKernel kernel;
  kernel.workspace_bytes = a.machine.kernels->winograd_workspace(arguments);
  kernel.packing = PackingOf(*a.machine.kernels, a.operand(1));
  kernel.run = [=, x = a.operand(0), bias = a.operand(2), y = a.result(),
                run = a.machine.kernels->winograd](const Frame& f) mutable {
    arguments.x = AddressOf<const float>(x, f);
    arguments.weight = static_cast<const float*>(f.packed);
    arguments.bias = bias.present() ? AddressOf<const float>(bias, f) : nullptr;
    arguments.residual = residual.present() ? AddressOf<const float>(residual, f) : nullptr;
    arguments.y = AddressOf<float>(y, f);
    arguments.workspace = f.workspace;
    run(arguments);
    return absl::OkStatus();
  };
  return kernel;
}

}  // namespace latentd::backends::cpu
