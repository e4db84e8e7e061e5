#include "core/base/errors/status_macros.h"
#include "core/graph/infer_rules.h"

namespace latentd::graph {

Inferred InferFused(Operands operands, const Attributes& attributes) {
  const auto& fused = std::get<FusedAttributes>(attributes);
  if (fused.body == nullptr) return Mismatch("a fused node needs a body");
  const std::vector<ValueId> inputs = fused.body->Select(Op::kInput);
  if (inputs.size() != operands.size()) {
    return Mismatch("the body has ", inputs.size(), " inputs for ", operands.size(), " operands");
  }
  for (size_t i = 0; i < inputs.size(); ++i) {
    const Node& input = fused.body->node(inputs[i]);
    if (input.name != absl::StrCat(i)) {
      return Mismatch("input ", i, " of the body must be named \"", i, "\"");
    }
    if (ValueType{input.dtype, input.shape} != operands[i]) {
      return Mismatch("input ", i, " of the body is ",
                      ToString(ValueType{input.dtype, input.shape}), ", the operand ",
                      ToString(operands[i]));
    }
  }
  if (fused.body->outputs().size() != 1) return Mismatch("the body must have one output");
  const ValueId result = fused.body->outputs()[0].value;
  if (result < 0 || result >= fused.body->size()) return Mismatch("the body's output is no value");
  return ValueType{fused.body->node(result).dtype, fused.body->node(result).shape};
}

}  // namespace latentd::graph
