// A graph as kernels that lack memory and weights.
//
// Internal to this directory. Plain data and free functions; thread-safe.
#pragma once

#include <cstddef>
#include <vector>

#include "absl/status/statusor.h"
#include "core/backends/cuda/binders/bound_kernel.h"
#include "core/backends/lowering/addresses.h"
#include "core/backends/lowering/shared_programs.h"
#include "core/graph/graph.h"
#include "core/graph/memory_plan.h"
#include "core/graph/recipes.h"

namespace latentd::backends::cuda {

struct BoundProgram : lowering::BoundProgram {
  std::vector<BoundKernel::Enqueue> kernels;  // one for each instruction; see BatchCopies
};
using Programs = lowering::SharedPrograms<BoundProgram>;

// `recipes` are bound as weights. The program points into the graph's constants.
absl::StatusOr<BoundProgram> Bind(const graph::Graph& graph, std::vector<graph::Recipe> recipes,
                                  const Chooser& chooser, const Gpu& gpu);

// Offsets of the constants that kernels read, in device memory of so many bytes: one for each
// storage, or -1.
struct Literals {
  std::vector<int64_t> offsets;
  size_t bytes = 0;
};
Literals PlaceLiterals(const Program& program);
// Fills memory of the host, of `bytes`, with them.
void WriteLiterals(const Program& program, const Literals& literals, char* to);

// Sets the addresses of storages that lie there.
void AddLiterals(char* at, const Literals& literals, lowering::Addresses& addresses);

// INVALID_ARGUMENT unless places begin at multiples of kPlaceAlignment.
absl::Status CheckPlaces(const graph::MemoryPlan& memory);

// Device memory of an executable beside arena and weights, about: its constants, the memory that
// its ports are staged in, and one captured graph.
size_t OwnBytes(const graph::Graph& graph, const BoundProgram& bound);

}  // namespace latentd::backends::cuda
