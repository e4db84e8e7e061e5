// A weight of another dtype than networks have theirs in: what recipes over a checkpoint's tensors
// read.
#pragma once

#include <string>
#include <utility>

#include "core/graph/graph_builder.h"

namespace latentd::testing {

inline graph::Value StoredWeight(graph::GraphBuilder& b, const std::string& name,
                                 device::DType stored, graph::Shape shape) {
  return b.Append(
      {.op = graph::Op::kWeight, .dtype = stored, .shape = std::move(shape), .name = name});
}

// The same in f32.
inline graph::Value CastWeight(graph::GraphBuilder& b, const std::string& name,
                               device::DType stored, graph::Shape shape) {
  return b.Cast(StoredWeight(b, name, stored, std::move(shape)), device::DType::kF32);
}

}  // namespace latentd::testing
