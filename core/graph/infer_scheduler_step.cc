#include "core/base/errors/status_macros.h"
#include "core/graph/infer_rules.h"

namespace latentd::graph {
namespace {

absl::Status CheckIs(const ValueType& operand, const Shape& expected, absl::string_view what) {
  if (operand == ValueType{DType::kF32, expected}) return absl::OkStatus();
  return Mismatch(what, " ", ToString(operand), " must be ",
                  ToString(ValueType{DType::kF32, expected}));
}

}  // namespace

Inferred InferSchedulerStep(Operands operands, const Attributes&) {
  const ValueType& state = operands[0];
  RETURN_IF_ERROR(CheckRank(state, 3, "state"));
  const int64_t rows = state.shape[0], elements = state.shape[2];
  RETURN_IF_ERROR(CheckIs(state, {rows, SchedulerLine::kStates, elements}, "state"));
  RETURN_IF_ERROR(CheckIs(operands[1], {rows, elements}, "output"));
  RETURN_IF_ERROR(CheckIs(operands[2], {rows, elements}, "noise"));
  RETURN_IF_ERROR(CheckIs(operands[3], {rows, SchedulerLine::kElements}, "line"));
  return state;
}

}  // namespace latentd::graph
