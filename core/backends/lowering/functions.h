// A table from ops to a backend's elementwise functions. Each backend has an enum of them, for its
// kernels to include, and all name them alike.
#pragma once

#include "absl/status/statusor.h"
#include "absl/strings/str_cat.h"
#include "core/graph/op_table.h"

namespace latentd::backends::lowering {

inline absl::Status NoFunctionFor(graph::Op op) {
  return absl::InternalError(absl::StrCat("no kernel computes ", graph::RowOf(op).name));
}

template <typename UnaryFunction>
absl::StatusOr<UnaryFunction> UnaryFunctionOf(graph::Op op) {
  switch (op) {
    case graph::Op::kSilu:
      return UnaryFunction::kSilu;
    case graph::Op::kGelu:
      return UnaryFunction::kGelu;
    case graph::Op::kQuickGelu:
      return UnaryFunction::kQuickGelu;
    case graph::Op::kRelu:
      return UnaryFunction::kRelu;
    case graph::Op::kExp:
      return UnaryFunction::kExp;
    case graph::Op::kTanh:
      return UnaryFunction::kTanh;
    default:
      return NoFunctionFor(op);
  }
}

template <typename BinaryFunction>
absl::StatusOr<BinaryFunction> BinaryFunctionOf(graph::Op op) {
  switch (op) {
    case graph::Op::kAdd:
      return BinaryFunction::kAdd;
    case graph::Op::kSub:
      return BinaryFunction::kSub;
    case graph::Op::kMul:
      return BinaryFunction::kMul;
    case graph::Op::kDiv:
      return BinaryFunction::kDiv;
    default:
      return NoFunctionFor(op);
  }
}

}  // namespace latentd::backends::lowering
