// A graph as kernels that lack memory and weights.
//
// Internal to this directory. Plain data and free functions; thread-safe.
#pragma once

#include <cstddef>
#include <vector>

#include "absl/status/statusor.h"
#include "core/backends/cuda/bound_kernel.h"
#include "core/backends/lowering/lifetimes.h"
#include "core/backends/plan.h"
#include "core/graph/graph.h"
#include "core/graph/memory_plan.h"
#include "core/graph/recipes.h"
#include "core/weights/weight_maker.h"

namespace latentd::backends::cuda {

struct BoundProgram {
  std::vector<graph::Recipe> recipes;
  Program program;
  std::vector<BoundKernel> kernels;  // one for each instruction
  lowering::ArenaValues values;
};

// `recipes` are bound as weights. The program points into the graph's constants.
absl::StatusOr<BoundProgram> Bind(const graph::Graph& graph, std::vector<graph::Recipe> recipes,
                                  const Chooser& chooser, const Gpu& gpu);

// One result that an executable takes from the store, and where it goes: to a storage that kernels
// read as it is, or to the instruction that reads it packed.
struct WeightUse {
  int recipe;
  int storage;      // -1: packed
  int instruction;  // -1: not packed
  weights::WeightFormat format;
};
std::vector<WeightUse> WeightUses(const BoundProgram& bound);

// Where the constants lie that kernels read, in device memory of so many bytes: for each storage,
// or -1.
struct Literals {
  std::vector<int64_t> offsets;
  size_t bytes = 0;
};
Literals PlaceLiterals(const Program& program);
// Fills memory of the host, of `bytes`, with them.
void WriteLiterals(const Program& program, const Literals& literals, char* to);

// As lowering::CheckMemory; places begin at multiples of kPlaceAlignment too.
absl::Status CheckMemory(const BoundProgram& bound, const graph::MemoryPlan& memory);

// The addresses of storages and workspaces that lie in an arena; the others are null.
struct ArenaAddresses {
  std::vector<char*> storages, workspaces;
};
ArenaAddresses AddressesIn(char* arena, const BoundProgram& bound, const graph::MemoryPlan& memory);

// What an executable takes of the device beside arena and weights, about: its constants, and its
// captured graph for one session.
size_t OwnBytes(const BoundProgram& bound);

// What a plan of these bytes and this memory says that it needs.
Plan WithNeeds(std::string bytes, const graph::MemoryPlan& memory, const BoundProgram& bound);

}  // namespace latentd::backends::cuda
