#include "core/base/status_macros.h"
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
  RETURN_IF_ERROR(CheckRank(state, 5, "state"));
  const Shape& s = state.shape;
  RETURN_IF_ERROR(CheckIs(state, {s[0], SchedulerLine::kStates, s[2], s[3], s[4]}, "state"));
  const Shape latents{s[0], s[2], s[3], s[4]};
  RETURN_IF_ERROR(CheckIs(operands[1], latents, "output"));
  RETURN_IF_ERROR(CheckIs(operands[2], latents, "noise"));
  RETURN_IF_ERROR(CheckIs(operands[3], {s[0], SchedulerLine::kElements}, "line"));
  return state;
}

}  // namespace latentd::graph
