// Graph -> passes -> the backend's plan: an artifact. What is in it is what runs, also in the
// process that compiled.
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

namespace latentd::compiler {

// `key` is KeyOf the same.
absl::StatusOr<ArtifactPointer> Compile(const GraphKey& key, const GraphLabel& label,
                                        const graph::Graph& graph, const backends::Backend& backend,
                                        const CompileOptions& options, const Clock& clock);

// INVALID_ARGUMENT names a pass to skip that there is not, and those that there are.
absl::Status CheckOptions(const CompileOptions& options);

}  // namespace latentd::compiler
