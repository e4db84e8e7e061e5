// A program whose kernels are chosen, without them: what it takes of memory and weights, whatever
// it runs on. Backends add the kernels.
//
// Plain data and free functions; thread-safe.
#pragma once

#include <cstddef>
#include <string>
#include <vector>

#include "absl/status/status.h"
#include "core/backends/lowering/kernel_binding.h"
#include "core/backends/lowering/lifetimes.h"
#include "core/backends/plan.h"
#include "core/graph/memory_plan.h"
#include "core/graph/recipes.h"
#include "core/weights/weight_maker.h"

namespace latentd::backends::lowering {

struct BoundProgram {
  std::vector<graph::Recipe> recipes;  // bound as weights
  Program program;
  std::vector<KernelNeeds> needs;  // needs of each instruction's kernel
  ArenaValues values;
};

// The form of a recipe's plain result in f32, where the program reads one that is of another dtype.
inline constexpr absl::string_view kWideForm = "f32";

// One result that an executable takes from the store, and where it goes: to a storage that kernels
// read as it is, or to the instruction that reads it packed.
struct WeightUse {
  int recipe;
  int storage;                   // -1: packed
  int instruction;               // -1: not packed
  weights::WeightFormat format;  // with its bytes, of a plain result too
};
std::vector<WeightUse> WeightUses(const BoundProgram& bound);

// A plan of these bytes and this memory, with what it needs; `own_bytes`: beside arena and weights.
Plan WithNeeds(std::string bytes, const graph::MemoryPlan& memory, size_t own_bytes,
               const BoundProgram& bound);

// DATA_LOSS unless the plan's `memory` is one for the program, and the plan says what it needs.
absl::Status CheckPlan(const Plan& plan, const graph::MemoryPlan& memory, size_t own_bytes,
                       const BoundProgram& bound);

// The result of a check of graph or plan, whose INVALID_ARGUMENT means that the plan is at fault.
absl::Status DataLossIfInvalid(const absl::Status& check);

}  // namespace latentd::backends::lowering
