// Fuses convolutions and linears with the residual addition and the activation that follow them
// (target.h, conv2d_epilogue and linear_epilogue), so that their result is written once.
#pragma once

#include "absl/status/statusor.h"
#include "core/graph/graph.h"
#include "core/graph/target.h"

namespace latentd::passes {

absl::StatusOr<graph::Graph> FuseEpilogues(const graph::Graph& graph, const graph::Target& target);

}  // namespace latentd::passes
