// Computes at compile time what depends on literals only.
//
// Of float32 results of at most 4096 elements: a literal is part of the graph's text. What cannot
// be evaluated, and a result that is not a number, stays as it was.
#pragma once

#include "absl/status/statusor.h"
#include "core/graph/graph.h"
#include "core/passes/pipeline.h"

namespace latentd::passes {

// An absent evaluator folds nothing.
absl::StatusOr<graph::Graph> FoldConstants(const graph::Graph& graph, const Evaluator& evaluate);

}  // namespace latentd::passes
