// Walks a graph node by node with ATen's tensors.
//
// Internal to this directory: it shows ATen's tensors and throws what ATen throws; evaluate.h and
// reference_backend.h are the seam.
#pragma once

#include <ATen/core/TensorBody.h>

#include <vector>

#include "absl/types/span.h"
#include "core/graph/graph.h"

namespace latentd::backends::reference {

// One tensor per node; an undefined one is not bound.
using Bindings = std::vector<at::Tensor>;

// `tensors` for the graph's inputs, in order. REQUIRES: as many as there are.
Bindings BindInputs(const graph::Graph& graph, absl::Span<const at::Tensor> tensors);
// `tensors` for the graph's weights, in order. REQUIRES: as many as there are.
Bindings BindWeights(const graph::Graph& graph, absl::Span<const at::Tensor> tensors);

// Computes what the outputs need of what is not bound; each intermediate is freed after its last
// use. The outputs, in order, contiguous. Throws if an input or weight that is needed is not bound.
std::vector<at::Tensor> Interpret(const graph::Graph& graph, Bindings values);

// The most bytes that Interpret holds at a time beside what is bound: values, and for one node its
// operands and its result in f32 where they are kept in half precision.
size_t InterpretBytes(const graph::Graph& graph, const std::vector<bool>& bound);

// The nodes that Interpret computes when exactly the nodes in `bound` are bound.
std::vector<bool> Computed(const graph::Graph& graph, const std::vector<bool>& bound);

}  // namespace latentd::backends::reference
