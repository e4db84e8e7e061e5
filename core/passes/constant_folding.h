// Computes at compile time all nodes that depend on literals only.
//
// Folds float32 results of at most 4096 elements: a literal is part of the graph's text. A node
// that cannot be evaluated, or whose result is not a number, stays as it was.
#pragma once

#include "absl/status/statusor.h"
#include "core/graph/graph.h"
#include "core/passes/pipeline.h"

namespace latentd::passes {

// An absent evaluator folds nothing.
absl::StatusOr<graph::Graph> FoldConstants(const graph::Graph& graph, const Evaluator& evaluate);

}  // namespace latentd::passes
