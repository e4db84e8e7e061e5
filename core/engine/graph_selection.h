// Which graphs an operator means, and how they are shown.
//
// Pure functions.
#pragma once

#include <string>
#include <vector>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "core/compiler/graph_store.h"
#include "core/engine/graph_admin.h"

namespace latentd::engine {

// INVALID_ARGUMENT if it selects nothing at all.
absl::Status CheckNotEmpty(const GraphSelector& selector);

// Those of `all` that the selector means, in their order, each once; a bucket means the graphs of
// that size only. NOT_FOUND names an id or bucket that is not there; INVALID_ARGUMENT an id that is
// too short or begins several, and a component that does not exist.
absl::StatusOr<std::vector<compiler::GraphInfo>> Select(const GraphSelector& selector,
                                                        std::vector<compiler::GraphInfo> all);

GraphEntry EntryOf(const compiler::GraphInfo& info);
EntryResult ResultOf(const compiler::GraphInfo& info, absl::Status status);

// The first of them, and how many more there are: for messages, which have to stay short.
std::string NameSome(const std::vector<std::string>& names);

}  // namespace latentd::engine
