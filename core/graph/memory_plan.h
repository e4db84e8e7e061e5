// Places the intermediates of a graph in an arena that all of them share: a pure function from
// sizes and lifetimes to offsets.
//
// The general problem is NP-hard. This places values largest first, each into the smallest gap that
// fits among those it shares a moment with, in two orders, and keeps the better; on networks that
// comes within a few per cent of the largest sum of bytes alive at once, below which no plan can
// go.
//
// Free functions; thread-safe.
#pragma once

#include <cstddef>
#include <vector>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "absl/types/span.h"

namespace latentd::graph {

// Alive from step first_use to step last_use, both included. Steps are any numbers that count
// upwards with the execution. REQUIRES: first_use <= last_use.
struct LiveValue {
  size_t bytes = 0;
  int first_use = 0;
  int last_use = 0;
};

struct MemoryPlan {
  std::vector<size_t> offsets;  // one for each value, a multiple of device::kAlignment
  size_t arena_bytes = 0;       // a multiple of the same
};

// RESOURCE_EXHAUSTED if the sizes do not even add up to something a machine can address.
absl::StatusOr<MemoryPlan> PlanMemory(absl::Span<const LiveValue> values);

// OK iff every value lies aligned inside the arena and no two that are alive together overlap: what
// a plan from a file must show before it is used. INVALID_ARGUMENT names the value.
absl::Status CheckPlan(absl::Span<const LiveValue> values, const MemoryPlan& plan);

// The largest sum of aligned sizes alive at one step.
size_t PeakBytes(absl::Span<const LiveValue> values);

}  // namespace latentd::graph
