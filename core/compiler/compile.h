// How a network's graph is compiled: precision is chosen, then it is split by rate before its parts
// have keys; then passes and the backend's plan make an artifact of each. An artifact's contents
// are what runs, also in the process that compiled.
//
// Free functions; thread-safe.
#pragma once

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "core/backends/backend.h"
#include "core/base/clock.h"
#include "core/compiler/artifact.h"
#include "core/compiler/graph_key.h"
#include "core/compiler/graph_label.h"
#include "core/graph/graph.h"
#include "core/graph/precision.h"
#include "core/graph/split.h"

namespace latentd::compiler {

// INVALID_ARGUMENT: `precision` is none that networks compute in, or a request-rate node mixes
// rows.
absl::StatusOr<graph::SplitGraphs> SplitInPrecision(const graph::Graph& graph,
                                                    const graph::Precision& precision);

// `key` is KeyOf the same.
absl::StatusOr<ArtifactPointer> Compile(const GraphKey& key, const GraphLabel& label,
                                        const graph::Graph& graph, const backends::Backend& backend,
                                        const CompileOptions& options, const Clock& clock);

// INVALID_ARGUMENT names a pass to skip that there is not, and those that there are.
absl::Status CheckOptions(const CompileOptions& options);

}  // namespace latentd::compiler
