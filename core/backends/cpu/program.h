// What the CPU backend makes of a graph before it chooses kernels: a list of instructions over
// storages. Reshapes, and slices and permutes where their readers can follow strides, have become
// views of what they move; a fused node has become one instruction if its pattern has a kernel, and
// its body's instructions otherwise.
//
// Plain data, made by Lower (lowering.h) and not changed afterwards.
#pragma once

#include <cstdint>
#include <memory>
#include <optional>
#include <vector>

#include "core/graph/graph.h"

namespace latentd::backends::cpu {

enum class Place : uint8_t {
  kArena,    // an intermediate
  kInput,    // the caller's memory, by port
  kOutput,   // the caller's memory, by port
  kHeld,     // a recipe's result, by the recipe's number
  kLiteral,  // a constant in a fused node's body
};

struct Storage {
  Place place = Place::kArena;
  int index = 0;  // of the port or recipe
  graph::DType dtype = graph::DType::kF32;
  int64_t elements = 0;
  const float* literal = nullptr;  // the graph's own memory
  bool widened = false;            // kHeld: the recipe's result in f32, which it is not itself
};

// A storage seen as a value of some shape.
struct View {
  int storage = -1;  // absent if negative
  int64_t offset = 0;
  graph::DType dtype = graph::DType::kF32;
  graph::Shape shape;
  std::vector<int64_t> strides;  // in elements, one for each dimension

  bool present() const { return storage >= 0; }
  // Row-major without gaps, as oneDNN and most loops want it.
  bool dense() const;
};

enum class Kernel : uint8_t {
  kConvolution,          // x, weight, bias or absent, residual or absent; images NHWC
  kUpsampleConvolution,  // x before upsampling, weight, bias or absent; the weight is held
  kLinear,               // x, weight, bias or absent, residual or absent
  kLinearGeglu,          // x, weight, bias or absent; the weight is held
  kMatmul,               // a, b
  kAttention,            // query, key, value: strided, but the channels of a token are contiguous
  kGroupNorm,            // x, gamma, beta, what is added to x before [rows, channels] or absent
  kLayerNorm,            // x, gamma, beta
  kSoftmax,
  kRowStd,
  kUnary,
  kGeglu,
  kCast,
  kBinary,  // strided, broadcast to the output's shape
  kCopy,    // strided on both sides
  kUpsample,
  kEmbedding,
  kTimestepEmbedding,
};
inline constexpr int kKernels = static_cast<int>(Kernel::kTimestepEmbedding) + 1;

struct Instruction {
  Kernel kernel = Kernel::kCopy;
  graph::Op op = graph::Op::kSlice;  // of the node; which function kUnary and kBinary compute
  graph::Attributes attributes;      // of the node
  std::vector<View> operands;
  View result;
  // What is applied to the result of kConvolution, kLinear and kGroupNorm; kInput: nothing.
  graph::Op activation = graph::Op::kInput;
};

struct Program {
  std::vector<Storage> storages;
  std::vector<Instruction> instructions;
};

View DenseView(int storage, graph::DType dtype, const graph::Shape& shape);
// The same elements in the same order under another shape, where strides can say that; nothing
// where they would have to be moved first. REQUIRES: as many elements.
std::optional<View> Reshaped(const View& view, const graph::Shape& shape);
std::vector<int64_t> DenseStrides(const graph::Shape& shape);

}  // namespace latentd::backends::cpu
