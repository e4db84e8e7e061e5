// Moves a residual addition before the reshape that stands between it and a linear:
//
//   add(x, reshape(linear))  ->  reshape(add(reshape(x), linear))
//
// A transformer block ends so: tokens become an image again and are added to the image
// that went in. Afterwards the epilogue pass can take the addition; the reshapes move nothing in
// memory.
#pragma once

#include "absl/status/statusor.h"
#include "core/graph/graph.h"
#include "core/graph/target.h"

namespace latentd::passes {

absl::StatusOr<graph::Graph> HoistResidual(const graph::Graph& graph, const graph::Target& target);

}  // namespace latentd::passes
