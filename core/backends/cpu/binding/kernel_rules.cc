#include "core/backends/cpu/binding/kernel_rules.h"

#include "core/backends/cpu/binding/algorithms.h"

namespace latentd::backends::cpu {

using graph::DType;

bool CpuKernelRules::Reads(Kernel kernel, size_t operand, DType dtype) const {
  const bool in_f32 = dtype != DType::kF16 && dtype != DType::kBF16;
  const bool in_bf16 = in_f32 || dtype == DType::kBF16;
  // A bias, or gamma and beta: little, and read many times.
  const bool affine = operand == 2 || (operand == 1 && !lowering::HasWeight(kernel));
  switch (kernel) {
    case Kernel::kConvolution:
    case Kernel::kLinear:
    case Kernel::kLinearGeglu:
      return affine || !MultipliesInBf16(machine_) ? in_f32 : in_bf16;
    case Kernel::kMatmul:
      return MultipliesInBf16(machine_) ? in_bf16 : in_f32;
    case Kernel::kGroupNorm:
    case Kernel::kLayerNorm:
      return affine ? in_f32 : in_bf16;
    case Kernel::kAttention:
    case Kernel::kLowRank:
    case Kernel::kIsFinite:
    case Kernel::kUnary:
    case Kernel::kClamp:
    case Kernel::kGeglu:
    case Kernel::kToPixels:
    case Kernel::kBinary:
      return in_bf16;
    case Kernel::kUpsampleConvolution:  // its sums of weights are no numbers of bf16
    case Kernel::kSoftmax:
    case Kernel::kRowStd:
    case Kernel::kSelect:
    case Kernel::kTimestepEmbedding:
    case Kernel::kSchedulerStep:
      return in_f32;
    case Kernel::kRowNorm:  // no kernel here computes those of 8-bit floats
    case Kernel::kF8Scale:
    case Kernel::kQuantize:
    case Kernel::kLayerNormF8:
    case Kernel::kGegluF8:
    case Kernel::kAttentionF8:
    case Kernel::kF8Linear:
    case Kernel::kF8LinearGeglu:
    case Kernel::kF8Convolution:
    case Kernel::kGroupNormF8:
    case Kernel::kCast:
    case Kernel::kIncrement:
    case Kernel::kCopy:
    case Kernel::kUpsample:
    case Kernel::kEmbedding:
      return true;
  }
  return in_f32;
}

bool CpuKernelRules::RunsFused(const lowering::FusedMatch& match, DType dtype,
                               bool weight_is_held) const {
  switch (match.kernel) {
    case Kernel::kLinearGeglu:  // it knows its weight packed only, and no path
      return weight_is_held && match.operands.size() == 3;
    case Kernel::kUpsampleConvolution:
      // Four ninths of the multiplications in f32 are more work than all of them in bf16.
      return weight_is_held && !(dtype == DType::kBF16 && MultipliesInBf16(machine_));
    default:
      return true;
  }
}

}  // namespace latentd::backends::cpu
