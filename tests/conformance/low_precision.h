// The graphs of the op conformance suite in another float dtype, and what they should compute.
#pragma once

#include "tests/conformance/op_cases.h"
#include "tests/conformance/run_graph.h"

namespace latentd::testing {

// The graph with inputs, weights and constants of `dtype` where they were f32, and bodies alike.
// Time steps stay f32, which their op wants. REQUIRES: no casts.
graph::Graph InDType(const graph::Graph& graph, device::DType dtype);

// What `graph` computes of the same values in f32.
Leaves Widened(const Leaves& leaves);

// The cases whose op has a meaning in every float dtype: neither casts nor what takes one only.
std::vector<OpCase> CasesOfEveryDType();

}  // namespace latentd::testing
