// What of a program needs a place in the arena, and for how long: what a memory plan
// (core/graph/memory_plan.h) is made of and checked against.
//
// Free functions; thread-safe.
#pragma once

#include <cstddef>
#include <vector>

#include "absl/status/status.h"
#include "absl/types/span.h"
#include "core/backends/lowering/program.h"
#include "core/graph/memory_plan.h"

namespace latentd::backends::lowering {

// Steps are numbers of instructions. The program's kArena storages in order, then the workspaces of
// the instructions that have one.
struct ArenaValues {
  std::vector<graph::LiveValue> values;
  std::vector<int> of_storage;    // index into values, or -1, for each storage
  std::vector<int> of_workspace;  // the same for each instruction
};

// `workspaces`: bytes for each instruction, which it needs while it runs; 0: none.
ArenaValues ValuesInArena(const Program& program, absl::Span<const size_t> workspaces);

// OK iff every value has its place, none overlaps another while both live, and the arena is not
// larger than all of them together.
absl::Status CheckMemory(const ArenaValues& values, const graph::MemoryPlan& memory);

}  // namespace latentd::backends::lowering
