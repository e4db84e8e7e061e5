// Graph -> passes -> the backend's plan -> artifact bytes, and back. What was sealed is what runs,
// also in the process that compiled.
//
// Free functions; thread-safe.
#pragma once

#include <memory>
#include <string>

#include "absl/status/statusor.h"
#include "absl/strings/string_view.h"
#include "absl/time/time.h"
#include "core/backends/backend.h"
#include "core/compiler/graph_key.h"
#include "core/compiler/graph_label.h"
#include "core/graph/graph.h"

namespace latentd::compiler {

struct CompiledGraph {
  std::shared_ptr<const graph::Graph> graph;  // after passes
  std::string plan;
};

absl::StatusOr<CompiledGraph> Compile(const graph::Graph& graph, const backends::Backend& backend,
                                      const CompileOptions& options);

// The artifact's bytes.
std::string Seal(const CompiledGraph& compiled, const GraphKey& key, const GraphLabel& label,
                 absl::Duration compile_time);

// DATA_LOSS: damaged; FAILED_PRECONDITION: made for another key, and the message says what differs.
// The plan is the backend's to check, against the graph.
absl::StatusOr<CompiledGraph> Open(absl::string_view artifact, const GraphKey& key);

// OK iff both have the same inputs and outputs, and `optimised` reads no weight that `declared`
// does not; else DATA_LOSS: it is not `declared` after passes.
absl::Status CheckSamePorts(const graph::Graph& declared, const graph::Graph& optimised);

}  // namespace latentd::compiler
