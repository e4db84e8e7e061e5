// The CPU backend's plan of a graph: an algorithm for each instruction and a place in the arena
// for each intermediate and each kernel's workspace. As bytes, all little-endian:
//
//   u8[8]   "latcpu\0\1": the last byte is the format's version
//   u32     number of instructions, then its algorithm (u8) for each
//
// and then the memory plan (core/backends/lowering/plan_bytes.h).
#pragma once

#include <string>
#include <vector>

#include "absl/status/statusor.h"
#include "absl/strings/string_view.h"
#include "absl/types/span.h"
#include "core/backends/cpu/binding/bound_program.h"
#include "core/graph/memory_plan.h"

namespace latentd::backends::cpu {

struct CpuPlan {
  std::vector<Algorithm> algorithms;
  graph::MemoryPlan memory;
};

std::string Encode(const CpuPlan& plan);

// As bytes, with what an executable of these kernels needs.
Plan WithNeeds(const CpuPlan& plan, const graph::Graph& graph, const BoundProgram& bound);

// INVALID_ARGUMENT for bytes that Encode did not make. What the numbers mean is not checked:
// CheckPlan.
absl::StatusOr<CpuPlan> Decode(absl::string_view bytes);

// OK iff each instruction has the algorithm that is chosen for it.
absl::Status CheckAlgorithms(const Program& program, absl::Span<const Algorithm> algorithms);

}  // namespace latentd::backends::cpu
