// What lowering has to know of kernels: which one computes an op, and how it takes its operands.
//
// Internal to this directory.
#pragma once

#include <optional>

#include "core/backends/cpu/bound_kernel.h"

namespace latentd::backends::cpu {

// The kernel of an op that is computed by one, its operands dense and as they are.
std::optional<Kernel> PlainKernel(graph::Op op);

// How many operands an instruction has, absent ones included.
size_t OperandCount(Kernel kernel, size_t given);

// Whether the second operand is a weight, which is packed when it is loaded if the store holds it.
bool HasWeight(Kernel kernel);
// Whether the kernel knows that weight packed only.
bool WantsHeldWeight(Kernel kernel);

// Whether the kernel reads that operand in that dtype. What it computes has the dtype of its first
// operand (but for kCast).
bool Reads(Kernel kernel, size_t operand, graph::DType dtype, const Machine& machine);

}  // namespace latentd::backends::cpu
