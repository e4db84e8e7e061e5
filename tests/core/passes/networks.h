// Small networks with everything in them that the passes look for, and ways to look at graphs.
#pragma once

#include <string>
#include <vector>

#include "core/graph/graph.h"
#include "core/graph/graph_builder.h"
#include "core/graph/target.h"

namespace latentd::passes {

// A target that can do everything that passes know of.
graph::Target EagerTarget(graph::Layout layout = graph::Layout::kNhwc);

// A small UNet in NCHW: convolutions, residual blocks with time embedding, downsampling,
// upsampling, skips joined by channel, a transformer block over the pixels with GEGLU, and
// classifier-free guidance of `rows` = 2 rows.
graph::Graph SmallUnet();

int Count(const graph::Graph& graph, graph::Op op);

// Kinds of the fused nodes, in order.
std::vector<std::string> FusedKinds(const graph::Graph& graph);

}  // namespace latentd::passes
