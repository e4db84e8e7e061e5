#include "core/base/errors/status_macros.h"
#include "core/graph/infer_rules.h"

namespace latentd::graph {
namespace {

absl::Status CheckScale(const ValueType& scale) {
  if (scale == ValueType{DType::kF32, Shape{}}) return absl::OkStatus();
  return Mismatch("scale is ", ToString(scale), ", must be f32[]");
}

absl::Status CheckE4M3(const ValueType& operand, absl::string_view what) {
  if (operand.dtype == DType::kF8E4M3) return absl::OkStatus();
  return Mismatch(what, " is ", device::Name(operand.dtype), ", must be f8_e4m3");
}

// Checks what linears and convolutions of 8-bit floats have in common.
absl::Status CheckProduct(Operands operands, DType to) {
  if (to != DType::kBF16 && to != DType::kF16) {
    return Mismatch("the result must be bf16 or f16, not ", device::Name(to));
  }
  RETURN_IF_ERROR(CheckE4M3(operands[0], "x"));
  RETURN_IF_ERROR(CheckE4M3(operands[1], "weight"));
  return CheckScale(operands[2]);
}

absl::Status CheckBias(Operands operands, const ValueType& bias) {
  if (operands.size() < 4 || operands[3] == bias) return absl::OkStatus();
  return Mismatch("bias is ", ToString(operands[3]), ", must be ", ToString(bias));
}

}  // namespace

Inferred InferF8Scale(Operands operands, const Attributes&) {
  if (operands[0].dtype != DType::kF32) return Mismatch("x must be f32");
  return operands[0];
}

Inferred InferQuantize(Operands operands, const Attributes&) {
  if (!IsFloat(operands[0].dtype)) return Mismatch("x must be floating-point");
  RETURN_IF_ERROR(CheckScale(operands[1]));
  return ValueType{DType::kF8E4M3, operands[0].shape};
}

Inferred InferF8Linear(Operands operands, const Attributes& attributes) {
  const DType to = std::get<F8LinearAttributes>(attributes).to;
  RETURN_IF_ERROR(CheckProduct(operands, to));
  RETURN_IF_ERROR(CheckRank(operands[1], 2, "weight"));
  const Shape &x = operands[0].shape, &weight = operands[1].shape;
  if (x.rank() < 1) return Mismatch("x must have at least one dimension");
  if (x[-1] != weight[1]) return Mismatch("weight takes ", weight[1], " features, x has ", x[-1]);
  RETURN_IF_ERROR(CheckBias(operands, {to, Shape{weight[0]}}));
  std::vector<int64_t> dims = x.dims();
  dims.back() = weight[0];
  return ValueType{to, Shape(std::move(dims))};
}

Inferred InferF8Conv2d(Operands operands, const Attributes& attributes) {
  const auto& conv = std::get<F8Conv2dAttributes>(attributes);
  RETURN_IF_ERROR(CheckProduct(operands, conv.to));
  ASSIGN_OR_RETURN(Shape shape, ConvolvedShape(operands[0], operands[1],
                                               {conv.stride, conv.padding, conv.layout}));
  RETURN_IF_ERROR(CheckBias(operands, {conv.to, Shape{operands[1].shape[0]}}));
  return ValueType{conv.to, std::move(shape)};
}

}  // namespace latentd::graph
