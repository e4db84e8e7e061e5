#include <cmath>

#include "core/base/errors/status_macros.h"
#include "core/graph/infer_rules.h"

namespace latentd::graph {
namespace {

absl::Status CheckAffine(Operands operands, int64_t channels) {
  const Shape expected{channels};
  if (operands[1].shape != expected) {
    return Mismatch("gamma ", operands[1].shape.ToString(), " must be ", expected.ToString());
  }
  if (operands[2].shape != expected) {
    return Mismatch("beta ", operands[2].shape.ToString(), " must be ", expected.ToString());
  }
  return absl::OkStatus();
}

absl::Status CheckEpsilon(float epsilon) {
  if (std::isfinite(epsilon) && epsilon >= 0) return absl::OkStatus();
  return Mismatch("epsilon ", epsilon, " must be finite and not negative");
}

absl::Status CheckLastDimension(const ValueType& x) {
  return x.shape.rank() > 0 ? absl::OkStatus() : Mismatch("x must have at least one dimension");
}

}  // namespace

Inferred InferGroupNorm(Operands operands, const Attributes& attributes) {
  const auto& norm = std::get<GroupNormAttributes>(attributes);
  RETURN_IF_ERROR(CheckOneFloatType(operands));
  RETURN_IF_ERROR(CheckRank(operands[0], 4, "x"));
  const int64_t channels = operands[0].shape[AxesOf(norm.layout).channels];
  if (norm.groups < 1 || channels % norm.groups != 0) {
    return Mismatch(norm.groups, " groups do not divide ", channels, " channels");
  }
  RETURN_IF_ERROR(CheckAffine(operands, channels));
  RETURN_IF_ERROR(CheckEpsilon(norm.epsilon));
  return operands[0];
}

Inferred InferLayerNorm(Operands operands, const Attributes& attributes) {
  RETURN_IF_ERROR(CheckOneFloatType(operands));
  RETURN_IF_ERROR(CheckLastDimension(operands[0]));
  RETURN_IF_ERROR(CheckAffine(operands, operands[0].shape[-1]));
  RETURN_IF_ERROR(CheckEpsilon(std::get<LayerNormAttributes>(attributes).epsilon));
  return operands[0];
}

Inferred InferSoftmax(Operands operands, const Attributes&) {
  RETURN_IF_ERROR(CheckOneFloatType(operands));
  RETURN_IF_ERROR(CheckLastDimension(operands[0]));
  return operands[0];
}

Inferred InferRowStd(Operands operands, const Attributes&) {
  RETURN_IF_ERROR(CheckOneFloatType(operands));
  RETURN_IF_ERROR(CheckLastDimension(operands[0]));
  const Shape& x = operands[0].shape;
  if (x.elements() / x[0] < 2) return Mismatch("x needs at least two elements a row");
  std::vector<int64_t> dims(x.rank(), 1);
  dims[0] = x[0];
  return ValueType{operands[0].dtype, Shape(std::move(dims))};
}

Inferred InferRowNorm(Operands operands, const Attributes&) {
  if (operands[0].dtype != DType::kF32) return Mismatch("x must be f32");
  RETURN_IF_ERROR(CheckLastDimension(operands[0]));
  std::vector<int64_t> dims(operands[0].shape.rank(), 1);
  dims[0] = operands[0].shape[0];
  return ValueType{operands[0].dtype, Shape(std::move(dims))};
}

Inferred InferIsFinite(Operands operands, const Attributes&) {
  RETURN_IF_ERROR(CheckOneFloatType(operands));
  RETURN_IF_ERROR(CheckLastDimension(operands[0]));
  return ValueType{DType::kU8, Shape{operands[0].shape[0]}};
}

}  // namespace latentd::graph
