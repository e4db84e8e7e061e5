// Moves the bias of a convolution that FuseUpsampleConv2d will fuse to the readers of the result,
// which add it at no cost, if the target says that the fused kernel adds it by one more walk over
// the whole image. With r = conv2d(upsample_nearest(x), weight, bias), the possible readers, and
// the part of a reader that changes:
//
//   silu(group_norm(r))    the addition of channels that group_norm_silu takes
//   conv2d(r), of 1x1      its own bias b becomes b + W bias
//   add(r, conv2d(y))      the bias b of the other convolution becomes b + bias
//
// So it is in an autoencoder's decoder. If anything else reads r, an output or the concatenations
// of a UNet, the bias stays where it is. New biases are summed in f32. They are of the checkpoint
// rate, so they are weight recipes, made once.
#pragma once

#include "absl/status/statusor.h"
#include "core/graph/graph.h"
#include "core/graph/target.h"

namespace latentd::passes {

absl::StatusOr<graph::Graph> MoveUpsampleBias(const graph::Graph& graph,
                                              const graph::Target& target);

}  // namespace latentd::passes
