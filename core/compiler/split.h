// The first half of compiling, before graphs have keys: precision is chosen, then the graph is
// split by rate.
//
// A pure function.
#pragma once

#include "absl/status/statusor.h"
#include "core/graph/graph.h"
#include "core/graph/precision.h"
#include "core/graph/split.h"

namespace latentd::compiler {

// INVALID_ARGUMENT: `precision` is none that networks compute in, or a request-rate node mixes
// rows.
absl::StatusOr<graph::SplitGraphs> SplitInPrecision(const graph::Graph& graph,
                                                    const graph::Precision& precision);

}  // namespace latentd::compiler
