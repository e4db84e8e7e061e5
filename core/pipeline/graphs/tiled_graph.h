// A network over an image's tiles (tiles.h), as nodes of one graph: the tiles' intermediates take
// turns in the arena, so that a large image needs little more of it than a tile does.
#pragma once

#include <cstdint>

#include "absl/functional/function_ref.h"
#include "core/graph/graph_builder.h"
#include "core/pipeline/graphs/tiles.h"

namespace latentd::pipeline {

// A network's nodes for one tile: [1, C, h, w] -> [1, C', h', w'].
using TileNetwork = absl::FunctionRef<graph::Value(graph::Value)>;

// Results of `network` for each tile, joined; with a grid of one tile, its result for `image`.
// `image` has `scale_in` pixels a latent in each direction, the result `scale_out`. Tiles fade into
// each other in f32, whatever the network computes in.
graph::Value OverTiles(graph::GraphBuilder& b, const TileGrid& grid, graph::Value image,
                       int64_t scale_in, int64_t scale_out, TileNetwork network);

}  // namespace latentd::pipeline
