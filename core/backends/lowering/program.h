// A Program is a graph as a fast backend sees it before it chooses how each kernel computes: a list
// of instructions over storages. Reshapes, and slices and permutes where their readers can follow
// strides, have become views of what they move; a fused node has become one instruction if the
// backend runs its pattern, and its body's instructions otherwise.
//
// Plain data, made by Lower (lowering.h) and not changed afterwards.
#pragma once

#include <cstdint>
#include <vector>

#include "core/backends/lowering/kernel.h"
#include "core/backends/lowering/view.h"
#include "core/graph/op.h"

namespace latentd::backends::lowering {

enum class Place : uint8_t {
  kArena,    // an intermediate
  kInput,    // the caller's memory, by port
  kOutput,   // the caller's memory, by port
  kHeld,     // a recipe's result, by the recipe's number
  kLiteral,  // a constant in a fused node's body
};

struct Storage {
  Place place = Place::kArena;
  int index = 0;  // number of the port or recipe
  graph::DType dtype = graph::DType::kF32;
  int64_t elements = 0;
  const float* literal = nullptr;  // the graph's own memory
  bool widened = false;            // kHeld: the recipe's result in f32, which it is not itself
};

struct Instruction {
  Kernel kernel = Kernel::kCopy;
  graph::Op op = graph::Op::kSlice;  // the node's op; selects the function of kUnary and kBinary
  graph::Attributes attributes;      // the node's attributes
  std::vector<View> operands;
  View result;
  // Function applied to the result of kConvolution, kLinear and kGroupNorm; kInput: none.
  graph::Op activation = graph::Op::kInput;
};

struct Program {
  std::vector<Storage> storages;
  std::vector<Instruction> instructions;
};

// True if the view is a recipe's whole result, which the store can hold in another form.
bool IsHeld(const Program& program, const View& view);

}  // namespace latentd::backends::lowering
