// Graph -> passes -> the backend's plan -> artifact bytes, and artifact bytes -> executable. The
// second is the only way to an executable, also in the process that compiled.
#pragma once

#include <memory>
#include <string>

#include "absl/status/statusor.h"
#include "absl/strings/string_view.h"
#include "core/backends/backend.h"
#include "core/compiler/graph_key.h"
#include "core/graph/graph.h"
#include "core/weights/weight_set.h"

namespace latentd::compiler {

absl::StatusOr<std::string> Compile(const graph::Graph& graph, const backends::Backend& backend,
                                    const CompileOptions& options);

// DATA_LOSS: damaged; FAILED_PRECONDITION: made for another key, and the message says what differs.
absl::StatusOr<std::unique_ptr<backends::Executable>> Load(absl::string_view artifact,
                                                           const GraphKey& key,
                                                           backends::Backend& backend,
                                                           const weights::WeightSet& weights);

}  // namespace latentd::compiler
