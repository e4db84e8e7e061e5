#include "core/backends/cpu/kernel_rules.h"

#include "core/backends/cpu/algorithms.h"

namespace latentd::backends::cpu {

using graph::DType;
using graph::Op;

std::optional<Kernel> PlainKernel(Op op) {
  switch (op) {
    case Op::kConv2d:
      return Kernel::kConvolution;
    case Op::kLinear:
      return Kernel::kLinear;
    case Op::kMatmul:
      return Kernel::kMatmul;
    case Op::kGroupNorm:
      return Kernel::kGroupNorm;
    case Op::kLayerNorm:
      return Kernel::kLayerNorm;
    case Op::kSoftmax:
      return Kernel::kSoftmax;
    case Op::kRowStd:
      return Kernel::kRowStd;
    case Op::kSilu:
    case Op::kGelu:
    case Op::kQuickGelu:
    case Op::kRelu:
    case Op::kTanh:
      return Kernel::kUnary;
    case Op::kGeglu:
      return Kernel::kGeglu;
    case Op::kCast:
      return Kernel::kCast;
    case Op::kUpsampleNearest:
      return Kernel::kUpsample;
    case Op::kEmbedding:
      return Kernel::kEmbedding;
    case Op::kTimestepEmbedding:
      return Kernel::kTimestepEmbedding;
    default:
      return std::nullopt;
  }
}

size_t OperandCount(Kernel kernel, size_t given) {
  const bool epilogue =
      kernel == Kernel::kConvolution || kernel == Kernel::kLinear || kernel == Kernel::kGroupNorm;
  return epilogue ? 4 : given;
}

bool HasWeight(Kernel kernel) {
  return kernel == Kernel::kConvolution || kernel == Kernel::kLinear || WantsHeldWeight(kernel);
}

bool WantsHeldWeight(Kernel kernel) {
  return kernel == Kernel::kLinearGeglu || kernel == Kernel::kUpsampleConvolution;
}

bool Reads(Kernel kernel, size_t operand, DType dtype, const Machine& machine) {
  const bool in_f32 = dtype != DType::kF16 && dtype != DType::kBF16;
  const bool in_bf16 = in_f32 || dtype == DType::kBF16;
  // A bias, or gamma and beta: little, and read many times.
  const bool affine = operand == 2 || (operand == 1 && !HasWeight(kernel));
  switch (kernel) {
    case Kernel::kConvolution:
    case Kernel::kLinear:
    case Kernel::kLinearGeglu:
      return affine || !MultipliesInBf16(machine) ? in_f32 : in_bf16;
    case Kernel::kMatmul:
      return MultipliesInBf16(machine) ? in_bf16 : in_f32;
    case Kernel::kGroupNorm:
    case Kernel::kLayerNorm:
      return affine ? in_f32 : in_bf16;
    case Kernel::kAttention:
    case Kernel::kUnary:
    case Kernel::kGeglu:
    case Kernel::kBinary:
      return in_bf16;
    case Kernel::kUpsampleConvolution:  // its sums of weights are no numbers of bf16
    case Kernel::kSoftmax:
    case Kernel::kRowStd:
    case Kernel::kTimestepEmbedding:
      return in_f32;
    case Kernel::kCast:
    case Kernel::kCopy:
    case Kernel::kUpsample:
    case Kernel::kEmbedding:
      return true;
  }
  return in_f32;
}

}  // namespace latentd::backends::cpu
