#include "core/backends/lowering/kernel.h"

#include <iterator>

namespace latentd::backends::lowering {

using graph::Op;

namespace {

struct KernelRow {
  constexpr KernelRow(Op op, std::optional<Kernel> kernel) : op(op), kernel(kernel) {}
  Op op;
  std::optional<Kernel> kernel;
};

constexpr KernelRow kKernelOfOp[] = {
    {Op::kInput, std::nullopt},
    {Op::kWeight, std::nullopt},
    {Op::kConstant, std::nullopt},
    {Op::kConv2d, Kernel::kConvolution},
    {Op::kLinear, Kernel::kLinear},
    {Op::kMatmul, Kernel::kMatmul},
    {Op::kAttention, Kernel::kAttention},
    {Op::kLowRank, Kernel::kLowRank},
    {Op::kGroupNorm, Kernel::kGroupNorm},
    {Op::kLayerNorm, Kernel::kLayerNorm},
    {Op::kSoftmax, Kernel::kSoftmax},
    {Op::kRowStd, Kernel::kRowStd},
    {Op::kIsFinite, Kernel::kIsFinite},
    {Op::kRowNorm, Kernel::kRowNorm},
    {Op::kSilu, Kernel::kUnary},
    {Op::kGelu, Kernel::kUnary},
    {Op::kQuickGelu, Kernel::kUnary},
    {Op::kRelu, Kernel::kUnary},
    {Op::kTanh, Kernel::kUnary},
    {Op::kExp, Kernel::kUnary},
    {Op::kClamp, Kernel::kClamp},
    {Op::kGeglu, Kernel::kGeglu},
    {Op::kCast, Kernel::kCast},
    {Op::kToPixels, Kernel::kToPixels},
    {Op::kIncrement, Kernel::kIncrement},
    {Op::kAdd, Kernel::kBinary},
    {Op::kSub, Kernel::kBinary},
    {Op::kMul, Kernel::kBinary},
    {Op::kDiv, Kernel::kBinary},
    {Op::kF8Scale, Kernel::kF8Scale},
    {Op::kQuantize, Kernel::kQuantize},
    {Op::kF8Linear, Kernel::kF8Linear},
    {Op::kF8Conv2d, Kernel::kF8Convolution},
    {Op::kConcat, std::nullopt},
    {Op::kSlice, std::nullopt},
    {Op::kReshape, std::nullopt},
    {Op::kPermute, std::nullopt},
    {Op::kUpsampleNearest, Kernel::kUpsample},
    {Op::kEmbedding, Kernel::kEmbedding},
    {Op::kSelect, Kernel::kSelect},
    {Op::kTimestepEmbedding, Kernel::kTimestepEmbedding},
    {Op::kSchedulerStep, Kernel::kSchedulerStep},
    {Op::kFused, std::nullopt},
};

constexpr bool EveryOpHasItsRow() {
  if (std::size(kKernelOfOp) != graph::kOps) return false;
  for (size_t i = 0; i < std::size(kKernelOfOp); ++i) {
    if (kKernelOfOp[i].op != static_cast<Op>(i)) return false;
  }
  return true;
}
static_assert(EveryOpHasItsRow());

}  // namespace

std::optional<Kernel> KernelOf(Op op) { return kKernelOfOp[static_cast<size_t>(op)].kernel; }

size_t OperandCount(Kernel kernel, size_t given) {
  const bool epilogue =
      kernel == Kernel::kConvolution || kernel == Kernel::kLinear || kernel == Kernel::kGroupNorm;
  if (kernel == Kernel::kF8Linear || kernel == Kernel::kF8Convolution) return 5;
  return epilogue ? 4 : given;
}

bool HasWeight(Kernel kernel) {
  return kernel == Kernel::kConvolution || kernel == Kernel::kUpsampleConvolution ||
         kernel == Kernel::kLinear || kernel == Kernel::kLinearGeglu ||
         kernel == Kernel::kF8LinearGeglu || kernel == Kernel::kF8Convolution;
}

bool HasOwnDType(Kernel kernel) {
  return kernel == Kernel::kCast || kernel == Kernel::kIsFinite || kernel == Kernel::kToPixels ||
         kernel == Kernel::kQuantize || kernel == Kernel::kF8Linear ||
         kernel == Kernel::kF8LinearGeglu || kernel == Kernel::kF8Convolution ||
         kernel == Kernel::kLayerNormF8 || kernel == Kernel::kGroupNormF8 ||
         kernel == Kernel::kGegluF8 || kernel == Kernel::kAttentionF8;
}

}  // namespace latentd::backends::lowering
