// Finds the fused nodes that run as one instruction. A body is matched by its structure; the kind
// is only a hint (core/graph/target.h), so a body that its kind does not fit is run node by node.
#pragma once

#include <optional>
#include <string>
#include <vector>

#include "core/backends/lowering/kernel.h"
#include "core/graph/graph.h"

namespace latentd::backends::lowering {

// For graph::Target::fused.
const std::vector<std::string>& FusedKinds();

// One instruction for a body. Numbers of operands of the fused node; -1: absent.
struct FusedMatch {
  Kernel kernel = Kernel::kConvolution;
  graph::ValueId product = 0;                // the conv2d, linear or group_norm in the body
  std::vector<int> operands;                 // as the instruction takes them
  graph::Op activation = graph::Op::kInput;  // kInput: none
};

std::optional<FusedMatch> Match(const graph::FusedAttributes& fused);

}  // namespace latentd::backends::lowering
