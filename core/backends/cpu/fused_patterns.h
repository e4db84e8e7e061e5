// Which fused nodes run as one instruction. A body is matched by its structure; the kind says only
// what to look for, so a body that its kind does not fit is run node by node.
#pragma once

#include <optional>
#include <string>
#include <vector>

#include "core/graph/graph.h"

namespace latentd::backends::cpu {

// The kinds that Match knows, for graph::Target::fused:
//   conv2d_epilogue, linear_epilogue: conv2d or linear [+ bias] [+ residual of the result's shape]
//     [silu, gelu, quick_gelu, relu]
//   group_norm_silu: group_norm of x [+ one value for each row and channel], [silu]
const std::vector<std::string>& FusedKinds();

// One instruction for a body. Numbers of operands of the fused node; -1: absent.
struct FusedMatch {
  graph::ValueId product = 0;                // of the body: the conv2d, linear or group_norm
  std::vector<int> operands;                 // as the instruction takes them
  graph::Op activation = graph::Op::kInput;  // kInput: none
};

std::optional<FusedMatch> Match(const graph::FusedAttributes& fused);

}  // namespace latentd::backends::cpu
