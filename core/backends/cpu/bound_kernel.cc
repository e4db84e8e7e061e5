#include "core/backends/cpu/bound_kernel.h"

#include "core/backends/cpu/binders.h"

namespace latentd::backends::cpu {
namespace {

Binder BinderOf(Kernel kernel) {
  switch (kernel) {
    case Kernel::kConvolution:
      return BindConvolution;
    case Kernel::kUpsampleConvolution:
      return BindUpsampleConvolution;
    case Kernel::kLinear:
      return BindLinear;
    case Kernel::kLinearGeglu:
      return BindLinearGeglu;
    case Kernel::kMatmul:
      return BindMatmul;
    case Kernel::kAttention:
      return BindAttention;
    case Kernel::kGroupNorm:
      return BindGroupNorm;
    case Kernel::kLayerNorm:
      return BindLayerNorm;
    case Kernel::kSoftmax:
      return BindSoftmax;
    case Kernel::kRowStd:
      return BindRowStd;
    case Kernel::kIsFinite:
      return BindIsFinite;
    case Kernel::kUnary:
      return BindUnary;
    case Kernel::kClamp:
      return BindClamp;
    case Kernel::kGeglu:
      return BindGeglu;
    case Kernel::kCast:
      return BindCast;
    case Kernel::kToPixels:
      return BindToPixels;
    case Kernel::kIncrement:
      return BindIncrement;
    case Kernel::kBinary:
      return BindBinary;
    case Kernel::kCopy:
      return BindCopy;
    case Kernel::kUpsample:
      return BindUpsample;
    case Kernel::kEmbedding:
      return BindEmbedding;
    case Kernel::kSelect:
      return BindSelect;
    case Kernel::kTimestepEmbedding:
      return BindTimestepEmbedding;
    case Kernel::kSchedulerStep:
      return BindSchedulerStep;
  }
  return nullptr;
}

}  // namespace

absl::StatusOr<BoundKernel> BindKernel(const Program& program, const Instruction& instruction,
                                       Algorithm algorithm, const Machine& machine) {
  return BinderOf(instruction.kernel)({program, instruction, algorithm, machine});
}

}  // namespace latentd::backends::cpu
