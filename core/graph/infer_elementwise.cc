#include <algorithm>

#include "core/base/errors/status_macros.h"
#include "core/graph/infer_rules.h"

namespace latentd::graph {
namespace {

// Size of dimension `index` of the broadcast result, counted from the last (0).
int64_t DimFromEnd(const Shape& shape, int index) {
  return index < shape.rank() ? shape[-1 - index] : 1;
}

absl::StatusOr<Shape> Broadcast(const Shape& a, const Shape& b) {
  const int rank = std::max(a.rank(), b.rank());
  std::vector<int64_t> dims(rank);
  for (int i = 0; i < rank; ++i) {
    const int64_t from_a = DimFromEnd(a, i);
    const int64_t from_b = DimFromEnd(b, i);
    if (from_a != from_b && from_a != 1 && from_b != 1) {
      return Mismatch("sizes ", from_a, " and ", from_b, " do not broadcast");
    }
    dims[rank - 1 - i] = from_a == 1 ? from_b : from_a;
  }
  return Shape(std::move(dims));
}

}  // namespace

Inferred InferUnary(Operands operands, const Attributes&) {
  RETURN_IF_ERROR(CheckOneFloatType(operands));
  return operands[0];
}

Inferred InferClamp(Operands operands, const Attributes& attributes) {
  RETURN_IF_ERROR(CheckOneFloatType(operands));
  const auto& clamp = std::get<ClampAttributes>(attributes);
  if (clamp.min <= clamp.max) return operands[0];
  return Mismatch("min ", clamp.min, " must not exceed max ", clamp.max);
}

Inferred InferGeglu(Operands operands, const Attributes&) {
  RETURN_IF_ERROR(CheckOneFloatType(operands));
  std::vector<int64_t> dims = operands[0].shape.dims();
  if (dims.empty() || dims.back() % 2 != 0) return Mismatch("the last dimension must be even");
  dims.back() /= 2;
  return ValueType{operands[0].dtype, Shape(std::move(dims))};
}

Inferred InferCast(Operands operands, const Attributes& attributes) {
  const DType to = std::get<CastAttributes>(attributes).to;
  if (device::IsF8(to)) return Mismatch("a cast has no scale; quantize makes 8-bit floats");
  return ValueType{to, operands[0].shape};
}

Inferred InferToPixels(Operands operands, const Attributes&) {
  RETURN_IF_ERROR(CheckOneFloatType(operands));
  return ValueType{DType::kU8, operands[0].shape};
}

Inferred InferIncrement(Operands operands, const Attributes&) {
  if (operands[0].dtype != DType::kI64) return Mismatch("x must be i64");
  return operands[0];
}

Inferred InferBinary(Operands operands, const Attributes&) {
  RETURN_IF_ERROR(CheckOneFloatType(operands));
  ASSIGN_OR_RETURN(Shape shape, Broadcast(operands[0].shape, operands[1].shape));
  return ValueType{operands[0].dtype, std::move(shape)};
}

}  // namespace latentd::graph
