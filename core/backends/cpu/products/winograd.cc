// 3x3 convolutions, of an image or of one that is upsampled to twice its size, by this backend's
// own kernel. In f32, also where the weight is not.
#include "absl/strings/str_cat.h"
#include "core/backends/cpu/binding/binders.h"
#include "core/backends/cpu/binding/element.h"
#include "core/backends/cpu/products/packing.h"
#include "core/base/errors/status_macros.h"

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

weights::WeightFormat FormatOf(const Machine& machine, const View& weight) {
  return {WinogradForm(machine),
          machine.kernels->winograd_weight_bytes(weight.shape[1], weight.shape[0]),
          Float32CopyBytes(weight.dtype, weight.shape.elements())};
}

}  // namespace

// Vectors are as wide as the instruction set says.
std::string WinogradForm(const Machine& machine) {
  return absl::StrCat("winograd-4x4 ", machine.kernels->name);
}

absl::Status PackWinograd(const device::ConstBuffer& plain, absl::Span<char> packed,
                          const Machine& machine) {
  const graph::Shape& weight = plain.shape();
  if (weight.rank() != 4) return absl::InternalError("a weight of no convolution");
  const device::ConstBuffer wide = InFloat32(plain);
  RETURN_IF_ERROR(CheckSizes(WinogradForm(machine), wide, 9 * weight[0] * weight[1] * sizeof(float),
                             packed, machine.kernels->winograd_weight_bytes(weight[1], weight[0])));
  machine.kernels->winograd_pack(wide.as<float>().data(), weight[1], weight[0],
                                 reinterpret_cast<float*>(packed.data()));
  return absl::OkStatus();
}

absl::StatusOr<BoundKernel> BindWinograd(const BinderArguments& a) {
  WinogradArguments arguments = ArgumentsOf(a);
  const View residual = a.instruction.operands.size() > 3 ? a.operand(3) : View();
  BoundKernel kernel;
  kernel.workspace_bytes = a.machine.kernels->winograd_workspace(arguments);
  kernel.packing = FormatOf(a.machine, a.operand(1));
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
