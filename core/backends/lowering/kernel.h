// The kernels that a fast backend has, each with its operands: an instruction runs one of them.
#pragma once

#include <cstddef>
#include <cstdint>
#include <optional>

#include "core/graph/op.h"

namespace latentd::backends::lowering {

enum class Kernel : uint8_t {
  kConvolution,          // x, weight, bias or absent, residual or absent; images NHWC
  kUpsampleConvolution,  // x before upsampling, weight, bias or absent; images NHWC
  kLinear,               // x, weight, bias or absent, residual or absent
  kLinearGeglu,          // x, weight, bias or absent; of a path down, up, slot, scale too
  kMatmul,               // a, b
  kAttention,            // query, key, value
  kAttentionF8,          // query, key, value, scale
  kLowRank,              // base, x, down, up, slot, scale; of the first two lines at one distance
                         // within a row, of the others' slots and rows at any
  kGroupNorm,            // x, gamma, beta, what is added to x before or absent: for each row its
                         // channels, dense, the rows at any distance
  kGroupNormF8,          // the same, scale; images NHWC
  kLayerNorm,            // x, gamma, beta
  kLayerNormF8,          // x, gamma, beta, scale
  kSoftmax,
  kRowStd,
  kIsFinite,
  kRowNorm,
  kUnary,
  kClamp,
  kGeglu,
  kGegluF8,  // x, scale
  kCast,
  kToPixels,
  kIncrement,
  kBinary,  // strided, broadcast to the output's shape
  kF8Scale,
  kQuantize,       // x, scale
  kF8Linear,       // x, weight, scale, bias or absent, residual or absent
  kF8LinearGeglu,  // x, weight, scale, bias or absent, the result's scale
  kF8Convolution,  // x, weight, scale, bias or absent, residual or absent; images NHWC
  kCopy,           // strided on both sides
  kUpsample,
  kEmbedding,
  kSelect,
  kTimestepEmbedding,
  kSchedulerStep,
};
inline constexpr size_t kKernels = static_cast<size_t>(Kernel::kSchedulerStep) + 1;

// X(Convolution) X(UpsampleConvolution) … for all kernels, in order: each backend declares and
// lists its binders by it (kernel_binding.h).
#define LATENTD_KERNELS(X) \
  X(Convolution)           \
  X(UpsampleConvolution)   \
  X(Linear)                \
  X(LinearGeglu)           \
  X(Matmul)                \
  X(Attention)             \
  X(AttentionF8)           \
  X(LowRank)               \
  X(GroupNorm)             \
  X(GroupNormF8)           \
  X(LayerNorm)             \
  X(LayerNormF8)           \
  X(Softmax)               \
  X(RowStd)                \
  X(IsFinite)              \
  X(RowNorm)               \
  X(Unary)                 \
  X(Clamp)                 \
  X(Geglu)                 \
  X(GegluF8)               \
  X(Cast)                  \
  X(ToPixels)              \
  X(Increment)             \
  X(Binary)                \
  X(F8Scale)               \
  X(Quantize)              \
  X(F8Linear)              \
  X(F8LinearGeglu)         \
  X(F8Convolution)         \
  X(Copy)                  \
  X(Upsample)              \
  X(Embedding)             \
  X(Select)                \
  X(TimestepEmbedding)     \
  X(SchedulerStep)

// True if a backend's table has a row for each kernel, in order.
template <typename Row, size_t kRows>
constexpr bool HasEveryKernel(const Row (&rows)[kRows]) {
  for (size_t i = 0; i < kRows; ++i) {
    if (rows[i].kernel != static_cast<Kernel>(i)) return false;
  }
  return kRows == kKernels;
}

// The kernel that computes an op; nothing for what is bound, a view, copies of its operands, or its
// body.
std::optional<Kernel> KernelOf(graph::Op op);

// How many operands an instruction has, absent ones included, whose op was given so many.
size_t OperandCount(Kernel kernel, size_t given);

// True if the second operand is a weight, which is held in the kernel's own form if it is a
// recipe's whole result.
bool HasWeight(Kernel kernel);

// True if the kernel makes the dtype that its node has, whatever it reads. The result of every
// other kernel has the dtype of its first operand.
bool HasOwnDType(Kernel kernel);

}  // namespace latentd::backends::lowering
