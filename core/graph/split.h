// Splits a graph by rate, after precision is chosen and before keys and passes, so that each part
// has its own text, key and artifact, and what the step part reads is stored in the dtype in which
// it reads it.
//
// The request part is one row: it is rebuilt with 1 in dimension 0 of every value, whatever the
// number of rows of the graph it is cut from, and it has no height or width in it, so one artifact
// serves all buckets and row counts. REQUIRES therefore that rows are dimension 0 of every
// request-rate value and of no other use; an error names the node otherwise.
//
// Values of it that the step part needs come packed: for each of their dtypes the request graph has
// one output, "request.f32" [1, n] and the like, in which they follow each other flattened, in
// order of their nodes; the step graph has one input [rows, n] of that name that it slices.
#pragma once

#include <optional>

#include "absl/status/statusor.h"
#include "absl/strings/string_view.h"
#include "core/graph/graph.h"

namespace latentd::graph {

// Begins the names of the packed values.
inline constexpr absl::string_view kPackedPrefix = "request.";

struct SplitGraphs {
  std::optional<Graph> request;  // absent if nothing of the request rate is computed
  Graph step;
};

absl::StatusOr<SplitGraphs> SplitByRate(const Graph& graph);

}  // namespace latentd::graph
