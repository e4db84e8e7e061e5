// Fused nodes of the op conformance suite.
#pragma once

#include <functional>
#include <string>
#include <vector>

#include "core/graph/graph_builder.h"

namespace latentd::testing {

// Appends a fused node to `b`: `write` writes its body, given a value for each operand.
graph::Value Fuse(graph::GraphBuilder& b, const std::string& kind,
                  const std::vector<graph::Value>& operands,
                  const std::function<graph::Value(graph::GraphBuilder&,
                                                   const std::vector<graph::Value>&)>& write);

}  // namespace latentd::testing
