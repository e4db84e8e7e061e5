// Which ways there are to compute an instruction, and which one is taken where nothing was
// measured.
//
// Free functions; thread-safe.
#pragma once

#include <vector>

#include "core/backends/cpu/bound_kernel.h"

namespace latentd::backends::cpu {

// Whether the second operand is a weight that the store can hold in a form of the kernel's.
bool WeightIsHeld(const Program& program, const Instruction& instruction);

// Whether products of bf16 are computed as such, with sums in f32.
bool MultipliesInBf16(const Machine& machine);

// All of them, kDirect first.
std::vector<Way> WaysOf(const Program& program, const Instruction& instruction);

// One of them, by rules that were measured on two cores with AVX-512.
Way DefaultWay(const Program& program, const Instruction& instruction, const Machine& machine);

}  // namespace latentd::backends::cpu
