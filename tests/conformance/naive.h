// A second, independent meaning of every op: loops over indices in double precision, without ATen
// and without the backends' code. It is what the reference backend, the oracle of the others, is
// itself measured against.
#pragma once

#include <string>
#include <vector>

#include "absl/container/flat_hash_map.h"
#include "core/graph/graph.h"

namespace latentd::testing {

struct Array {
  device::Shape shape;
  std::vector<double> values;  // row-major
};

using Arrays = absl::flat_hash_map<std::string, Array>;

// The graph's outputs, with inputs and weights taken from `leaves` by name.
std::vector<Array> EvaluateNaively(const graph::Graph& graph, const Arrays& leaves);

// One op. REQUIRES: not an input or a weight.
Array ComputeNaively(const graph::Node& node, const std::vector<const Array*>& operands);

// True if ComputeNaively knows the op (inputs and weights it does not).
bool KnownNaively(graph::Op op);

}  // namespace latentd::testing
