// Lifetimes of the values of a program that need a place in the arena: a memory plan
// (core/graph/memory_plan.h) is made of them and checked against them.
//
// Free functions; thread-safe.
#pragma once

#include <vector>

#include "absl/status/status.h"
#include "absl/types/span.h"
#include "core/backends/lowering/kernel_binding.h"
#include "core/graph/memory_plan.h"

namespace latentd::backends::lowering {

// Steps are numbers of instructions. The program's kArena storages in order, then the workspaces of
// the instructions that have one.
struct ArenaValues {
  std::vector<graph::LiveValue> values;
  std::vector<int> of_storage;    // index into values, or -1, for each storage
  std::vector<int> of_workspace;  // the same for each instruction
};

// `needs`: of each instruction's kernel.
ArenaValues ValuesInArena(const Program& program, absl::Span<const KernelNeeds> needs);

// OK iff every value has its place, none overlaps another while both live, and the arena is not
// larger than all of them together.
absl::Status CheckMemory(const ArenaValues& values, const graph::MemoryPlan& memory);

}  // namespace latentd::backends::lowering
