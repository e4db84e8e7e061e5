// Moves images into the layout that the target's convolutions like (NHWC; a target that likes NCHW
// gets the graph back).
//
// Networks are written in NCHW. The pass walks forward and keeps up to two forms of each image, as
// it was and channels-last, each made when something first wants it. Convolutions, group norms and
// upsampling want channels-last; elementwise ops, concatenations and slices follow their operands;
// everything else, outputs included, gets the form it had. The permutes between images and tokens
// that networks contain ([0,2,3,1] and back) then only name the other form, and tokens are a
// reshape without a copy.
#pragma once

#include "absl/status/statusor.h"
#include "core/graph/graph.h"
#include "core/graph/target.h"

namespace latentd::passes {

absl::StatusOr<graph::Graph> ChooseImageLayout(const graph::Graph& graph,
                                               const graph::Target& target);

}  // namespace latentd::passes
