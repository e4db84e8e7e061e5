// Finds the graphs that an operator means, and shows them.
//
// Pure functions.
#pragma once

#include <functional>
#include <set>
#include <string>
#include <vector>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "core/compiler/graph_store.h"
#include "core/engine/api/graph_admin.h"

namespace latentd::engine {

// A bucket that is served, and the ids of every graph that its pictures need: those of its size,
// and those that it shares with others (text encoders).
struct BucketNeeds {
  pipeline::Size bucket;
  std::set<std::string> ids;
};

// Graphs of `all` that the selector means, in their order, each once; a bucket means the graphs of
// that size and, where it is served, all that it needs. NOT_FOUND names an id or bucket that is not
// there; INVALID_ARGUMENT an id that begins several.
absl::StatusOr<std::vector<compiler::GraphStatus>> Select(const GraphSelector& selector,
                                                          std::vector<compiler::GraphStatus> all,
                                                          const std::vector<BucketNeeds>& served);

// Likewise, to let go of them: without those that were selected by their bucket alone and that
// another bucket still needs, one that the selector does not name and of whose own graphs one is
// `kept`.
absl::StatusOr<std::vector<compiler::GraphStatus>> SelectToRelease(
    const GraphSelector& selector, const std::vector<compiler::GraphStatus>& all,
    const std::vector<BucketNeeds>& served,
    const std::function<bool(const compiler::GraphStatus&)>& kept);

// Why no bucket that is served needs the graph; empty: one does. `known` has what is declared.
std::string WhyUnused(const compiler::GraphStatus& graph,
                      const std::vector<compiler::GraphStatus>& known,
                      const std::vector<BucketNeeds>& served);

GraphEntry EntryOf(const compiler::GraphStatus& info);
EntryResult ResultOf(const compiler::GraphStatus& info, absl::Status status);

// Names in a message, which has to stay short.
inline constexpr size_t kMostNamed = 10;

}  // namespace latentd::engine
