// The meaning of each op of the IR: one row per op, in ATen's operators, written for clarity. This
// is the definition that every other backend is measured against.
//
// Internal to this directory: it shows ATen's tensors, so include it in .cc files only.
#pragma once

#include <ATen/core/TensorBody.h>

#include "absl/types/span.h"
#include "core/graph/graph.h"

namespace latentd::backends::reference {

struct Operator {
  graph::Op op;
  // nullptr for what is bound and not computed: inputs and weights. Operands that are absent are
  // absent at the end only. Throws what ATen throws; the result need not be contiguous.
  at::Tensor (*compute)(const graph::Node& node, absl::Span<const at::Tensor> operands);
};

const Operator& OperatorOf(graph::Op op);

}  // namespace latentd::backends::reference
