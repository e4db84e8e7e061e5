// Addresses of all memory that the kernels of a bound program work on.
//
// Plain data and free functions; thread-safe.
#pragma once

#include <cstddef>
#include <vector>

#include "absl/functional/function_ref.h"
#include "absl/status/statusor.h"
#include "absl/types/span.h"
#include "core/backends/lowering/bound_program.h"
#include "core/device/buffer.h"
#include "core/weights/weight_set.h"
#include "core/weights/weight_store.h"

namespace latentd::backends::lowering {

struct Addresses {
  std::vector<char*> storages;      // null: not known yet
  std::vector<char*> workspaces;    // workspace of each instruction; null: none
  std::vector<const void*> packed;  // weight of each instruction; null: none

  Frame FrameOf(size_t instruction) const {
    return {storages.data(), workspaces[instruction], packed[instruction]};
  }
};

// Addresses of the values that the plan places, in an arena that begins there.
Addresses AddressesIn(char* arena, const BoundProgram& bound, const graph::MemoryPlan& memory);

// With the callers' memory too, by port. Inputs are written only where an output updates them.
Addresses WithPorts(Addresses addresses, const Program& program, absl::Span<char* const> inputs,
                    absl::Span<char* const> outputs);

// Takes each recipe's result from the store in the forms that kernels read it in, so many at a
// time; for what there is no memory then, one after the other. `address_of`: where they find a
// result. What the addresses point into is what is returned.
absl::StatusOr<std::vector<weights::WeightRef>> HoldWeights(
    const BoundProgram& bound, const weights::WeightSet& weights, int threads,
    absl::FunctionRef<const void*(const device::ConstBuffer&)> address_of, Addresses& addresses);

}  // namespace latentd::backends::lowering
