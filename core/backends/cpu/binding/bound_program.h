// A graph as kernels that lack memory and weights.
//
// Internal to this directory and its tests. Thread-safe.
#pragma once

#include <vector>

#include "absl/functional/function_ref.h"
#include "absl/status/statusor.h"
#include "core/backends/cpu/binding/bound_kernel.h"
#include "core/backends/lowering/addresses.h"
#include "core/backends/lowering/shared_programs.h"
#include "core/graph/graph.h"
#include "core/graph/recipes.h"

namespace latentd::backends::cpu {

struct BoundProgram : lowering::BoundProgram {
  std::vector<BoundKernel::Run> kernels;  // one for each instruction
};
using Programs = lowering::SharedPrograms<BoundProgram>;

// Gives an algorithm for each instruction.
using AlgorithmChoice =
    absl::FunctionRef<absl::StatusOr<std::vector<Algorithm>>(const Program& program)>;

// `recipes` are bound as weights. The program points into the graph's constants.
absl::StatusOr<BoundProgram> Bind(const graph::Graph& graph, std::vector<graph::Recipe> recipes,
                                  AlgorithmChoice choose, const Machine& machine);

// As lowering has it; constants lie where the graph has them.
lowering::Addresses AddressesIn(char* arena, const BoundProgram& bound,
                                const graph::MemoryPlan& memory);

}  // namespace latentd::backends::cpu
