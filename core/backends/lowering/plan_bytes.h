// How the bytes of every backend's plan end, all little-endian:
//
//   u32     number of values, then an offset in the arena (u64) for each
//   u64     bytes of the arena
//
// Values are those of ArenaValues.
#pragma once

#include <string>

#include "absl/status/statusor.h"
#include "core/base/text/coding.h"
#include "core/graph/memory_plan.h"

namespace latentd::backends::lowering {

void PutMemory(std::string& bytes, const graph::MemoryPlan& memory);

// INVALID_ARGUMENT: something was missing, here or before, or something is left.
absl::StatusOr<graph::MemoryPlan> TakeMemory(LittleEndianReader& reader);

}  // namespace latentd::backends::lowering
