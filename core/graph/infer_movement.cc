#include <cmath>

#include "core/base/errors/status_macros.h"
#include "core/graph/infer_rules.h"

namespace latentd::graph {
namespace {

absl::Status CheckAxis(int64_t axis, const Shape& shape) {
  if (axis >= 0 && axis < shape.rank()) return absl::OkStatus();
  return Mismatch("axis ", axis, " is not in ", shape.ToString());
}

// OK iff `part` is like `first` in dtype and in every dimension but `axis`.
absl::Status CheckPart(const ValueType& first, const ValueType& part, int64_t axis) {
  if (part.dtype != first.dtype) return Mismatch("operands must have one dtype");
  RETURN_IF_ERROR(CheckRank(part, first.shape.rank(), "every operand"));
  for (int i = 0; i < first.shape.rank(); ++i) {
    if (i != axis && part.shape[i] != first.shape[i]) {
      return Mismatch("dimension ", i, " is ", first.shape[i], " in one operand and ",
                      part.shape[i], " in another");
    }
  }
  return absl::OkStatus();
}

}  // namespace

Inferred InferConcat(Operands operands, const Attributes& attributes) {
  const int64_t axis = std::get<ConcatAttributes>(attributes).axis;
  RETURN_IF_ERROR(CheckAxis(axis, operands[0].shape));
  std::vector<int64_t> dims = operands[0].shape.dims();
  for (const ValueType& part : operands.subspan(1)) {
    RETURN_IF_ERROR(CheckPart(operands[0], part, axis));
    // Checked here and not at the end, so that no number of operands overflows.
    dims[axis] += part.shape[static_cast<int>(axis)];
    if (dims[axis] > kMaxElements) return Mismatch("the result is too large");
  }
  return ValueType{operands[0].dtype, Shape(std::move(dims))};
}

Inferred InferSlice(Operands operands, const Attributes& attributes) {
  const auto& slice = std::get<SliceAttributes>(attributes);
  RETURN_IF_ERROR(CheckAxis(slice.axis, operands[0].shape));
  std::vector<int64_t> dims = operands[0].shape.dims();
  if (slice.begin < 0 || slice.begin >= slice.end || slice.end > dims[slice.axis]) {
    return Mismatch("[", slice.begin, ", ", slice.end, ") is no part of dimension ", slice.axis,
                    " of ", operands[0].shape.ToString());
  }
  dims[slice.axis] = slice.end - slice.begin;
  return ValueType{operands[0].dtype, Shape(std::move(dims))};
}

Inferred InferReshape(Operands operands, const Attributes& attributes) {
  const Shape& shape = std::get<ReshapeAttributes>(attributes).shape;
  RETURN_IF_ERROR(CheckShape(shape));
  if (shape.elements() != operands[0].shape.elements()) {
    return Mismatch(shape.ToString(), " has ", shape.elements(), " elements, the operand ",
                    operands[0].shape.elements());
  }
  return ValueType{operands[0].dtype, shape};
}

Inferred InferPermute(Operands operands, const Attributes& attributes) {
  const std::vector<int64_t>& order = std::get<PermuteAttributes>(attributes).order;
  const Shape& x = operands[0].shape;
  if (static_cast<int>(order.size()) != x.rank()) {
    return Mismatch("an order of ", order.size(), " for a rank of ", x.rank());
  }
  std::vector<bool> seen(order.size(), false);
  std::vector<int64_t> dims;
  for (int64_t from : order) {
    if (from < 0 || from >= x.rank() || seen[from]) {
      return Mismatch("the order must name every dimension once");
    }
    seen[from] = true;
    dims.push_back(x[static_cast<int>(from)]);
  }
  return ValueType{operands[0].dtype, Shape(std::move(dims))};
}

Inferred InferUpsampleNearest(Operands operands, const Attributes& attributes) {
  const auto& upsample = std::get<UpsampleAttributes>(attributes);
  RETURN_IF_ERROR(CheckRank(operands[0], 4, "x"));
  if (!IsFloat(operands[0].dtype)) return Mismatch("x must be floating-point");
  if (upsample.height < 1 || upsample.width < 1) {
    return Mismatch("height ", upsample.height, " and width ", upsample.width,
                    " must be at least 1");
  }
  const Shape& x = operands[0].shape;
  const int64_t channels = x[AxesOf(upsample.layout).channels];
  return ValueType{operands[0].dtype,
                   ImageShape(upsample.layout, x[0], channels, upsample.height, upsample.width)};
}

Inferred InferEmbedding(Operands operands, const Attributes&) {
  RETURN_IF_ERROR(CheckRank(operands[0], 2, "table"));
  if (!IsFloat(operands[0].dtype)) return Mismatch("table must be floating-point");
  if (operands[1].dtype != DType::kI64) return Mismatch("ids must be i64");
  std::vector<int64_t> dims = operands[1].shape.dims();
  dims.push_back(operands[0].shape[1]);
  return ValueType{operands[0].dtype, Shape(std::move(dims))};
}

Inferred InferSelect(Operands operands, const Attributes&) {
  RETURN_IF_ERROR(CheckRank(operands[0], 3, "table"));
  if (operands[0].dtype != DType::kF32) return Mismatch("table must be f32");
  if (operands[1].dtype != DType::kI64) return Mismatch("index must be i64");
  const Shape& table = operands[0].shape;
  if (operands[1].shape != Shape{table[0]}) {
    return Mismatch("index ", operands[1].shape.ToString(), " must be ",
                    Shape{table[0]}.ToString());
  }
  return ValueType{DType::kF32, Shape{table[0], table[2]}};
}

Inferred InferTimestepEmbedding(Operands operands, const Attributes& attributes) {
  const auto& embedding = std::get<TimestepEmbeddingAttributes>(attributes);
  RETURN_IF_ERROR(CheckRank(operands[0], 1, "timesteps"));
  if (operands[0].dtype != DType::kF32) return Mismatch("timesteps must be f32");
  if (embedding.dim < 2) return Mismatch("dim ", embedding.dim, " must be at least 2");
  // The exponents are divided by half the dimension less this shift.
  const int64_t half = embedding.dim / 2;
  const float shift = embedding.downscale_freq_shift;
  if (!std::isfinite(shift) || static_cast<float>(half) == shift) {
    return Mismatch("downscale_freq_shift ", shift, " must be finite and not half of dim");
  }
  return ValueType{DType::kF32, Shape{operands[0].shape[0], embedding.dim}};
}

}  // namespace latentd::graph
