// The CPU backend's plan of a graph: an algorithm for each instruction and a place in the arena
// for each intermediate and each kernel's workspace. As bytes, all little-endian:
//
//   u8[8]   "latcpu\0\1": the last byte is the format's version
//   u32     number of instructions, then its algorithm (u8) for each
//   u32     number of values, then an offset in the arena (u64) for each
//   u64     bytes of the arena
//
// Values are the program's kArena storages in order, then the workspaces of the instructions that
// have one.
#pragma once

#include <string>
#include <vector>

#include "absl/status/statusor.h"
#include "absl/strings/string_view.h"
#include "absl/types/span.h"
#include "core/backends/cpu/bound_kernel.h"
#include "core/graph/memory_plan.h"

namespace latentd::backends::cpu {

struct CpuPlan {
  std::vector<Algorithm> algorithms;
  graph::MemoryPlan memory;
};

std::string Encode(const CpuPlan& plan);

// INVALID_ARGUMENT for bytes that Encode did not make. What the numbers mean is not checked:
// CheckPlan.
absl::StatusOr<CpuPlan> Decode(absl::string_view bytes);

// What needs a place in the arena, and for how long: steps are numbers of instructions.
struct ArenaValues {
  std::vector<graph::LiveValue> values;
  std::vector<int> of_storage;    // index into values, or -1, for each storage
  std::vector<int> of_workspace;  // the same for each instruction
};
ArenaValues ValuesInArena(const Program& program, absl::Span<const BoundKernel> kernels);

// OK iff each instruction has the algorithm that is chosen for it.
absl::Status CheckAlgorithms(const Program& program, absl::Span<const Algorithm> algorithms);

// OK iff every value has its place, none overlaps another while both live, and the arena is not
// larger than all of them together.
absl::Status CheckMemory(const ArenaValues& values, const graph::MemoryPlan& memory);

}  // namespace latentd::backends::cpu
