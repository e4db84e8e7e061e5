// The CUDA backend's plan of a graph: what the vendor's libraries chose for its shapes, and a place
// in the arena for each intermediate and each kernel's workspace. As bytes, all little-endian:
//
//   u8[8]   "latcuda\1": the last byte is the format's version
//   u32     number of choices, then for each, in order of keys, key and choice, each a u32 of its
//           size and its bytes
//
// and then the memory plan (core/backends/lowering/plan_bytes.h).
#pragma once

#include <string>

#include "absl/status/statusor.h"
#include "absl/strings/string_view.h"
#include "core/backends/cuda/binders/bound_kernel.h"
#include "core/graph/memory_plan.h"

namespace latentd::backends::cuda {

struct CudaPlan {
  Choices choices;
  graph::MemoryPlan memory;
};

std::string Encode(const CudaPlan& plan);

// INVALID_ARGUMENT for bytes that Encode did not make. What the numbers mean is not checked.
absl::StatusOr<CudaPlan> Decode(absl::string_view bytes);

}  // namespace latentd::backends::cuda
