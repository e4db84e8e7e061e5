// Fuses an upsampling to twice the size and the 3x3 convolution that alone reads it (target.h,
// upsample_conv2d): the large image between them, each pixel of it four times, is never written.
#pragma once

#include <vector>

#include "absl/status/statusor.h"
#include "core/graph/graph.h"
#include "core/graph/target.h"
#include "core/passes/fusion.h"

namespace latentd::passes {

// The chains that FuseUpsampleConv2d fuses: each an upsampling and its convolution.
std::vector<Chain> UpsampleConvolutions(const graph::Graph& graph);

absl::StatusOr<graph::Graph> FuseUpsampleConv2d(const graph::Graph& graph,
                                                const graph::Target& target);

}  // namespace latentd::passes
