// One row per op: its name in the text form, how many operands it takes, and the rule that gives
// the result's dtype and shape. Adding an op is a row here, a row in the reference backend, and its
// case in tests/conformance.
#pragma once

#include "absl/status/statusor.h"
#include "absl/types/span.h"
#include "core/graph/graph.h"

namespace latentd::graph {

struct ValueType {
  DType dtype = DType::kF32;
  Shape shape;
  bool operator==(const ValueType&) const = default;
};

struct OpRow {
  Op op;
  absl::string_view name;  // "conv2d"
  int min_operands;
  int max_operands;  // -1: no bound
  // REQUIRES: the number of operands is within the bounds. An error says which operand does not fit
  // and why.
  absl::StatusOr<ValueType> (*infer)(absl::Span<const ValueType> operands,
                                     const Attributes& attributes);
};

const OpRow& RowOf(Op op);
absl::Span<const OpRow> OpTable();

// Type of a non-leaf node from its operands' types: checks the count, then the row's rule.
absl::StatusOr<ValueType> InferType(Op op, absl::Span<const ValueType> operands,
                                    const Attributes& attributes);

}  // namespace latentd::graph
