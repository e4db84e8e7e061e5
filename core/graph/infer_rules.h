// The shape and dtype rules behind the rows of op_table.cc, by family of ops. Only op_table.cc
// calls them: it has checked the number of operands, their shapes (CheckShape) and the attributes'
// alternative.
#pragma once

#include <utility>

#include "absl/status/statusor.h"
#include "absl/strings/str_cat.h"
#include "absl/types/span.h"
#include "core/graph/op_table.h"

namespace latentd::graph {

using Operands = absl::Span<const ValueType>;
using Inferred = absl::StatusOr<ValueType>;

template <typename... Parts>
absl::Status Mismatch(const Parts&... parts) {
  return absl::InvalidArgumentError(absl::StrCat(parts...));
}

inline bool IsFloat(DType dtype) {
  return dtype == DType::kF32 || dtype == DType::kF16 || dtype == DType::kBF16;
}

// OK iff all operands have one floating-point dtype.
absl::Status CheckOneFloatType(Operands operands);

// OK iff the operand has `rank` dimensions; `what` names it in the error.
absl::Status CheckRank(const ValueType& operand, int rank, absl::string_view what);

// Index of an image's channels, height or width.
struct ImageAxes {
  int channels, height, width;
};
ImageAxes AxesOf(Layout layout);
Shape ImageShape(Layout layout, int64_t rows, int64_t channels, int64_t height, int64_t width);

// Shape of a convolution's result; its operands' dtypes and its bias are not looked at.
absl::StatusOr<Shape> ConvolvedShape(const ValueType& x, const ValueType& weight,
                                     const Conv2dAttributes& conv);

// Matrix products (infer_products.cc).
Inferred InferConv2d(Operands operands, const Attributes& attributes);
Inferred InferLinear(Operands operands, const Attributes& attributes);
Inferred InferMatmul(Operands operands, const Attributes& attributes);
Inferred InferAttention(Operands operands, const Attributes& attributes);
Inferred InferLowRank(Operands operands, const Attributes& attributes);

// Norms (infer_norms.cc).
Inferred InferGroupNorm(Operands operands, const Attributes& attributes);
Inferred InferLayerNorm(Operands operands, const Attributes& attributes);
Inferred InferSoftmax(Operands operands, const Attributes& attributes);
Inferred InferRowStd(Operands operands, const Attributes& attributes);
Inferred InferIsFinite(Operands operands, const Attributes& attributes);
Inferred InferRowNorm(Operands operands, const Attributes& attributes);

// Elementwise (infer_elementwise.cc).
Inferred InferUnary(Operands operands, const Attributes& attributes);
Inferred InferClamp(Operands operands, const Attributes& attributes);
Inferred InferGeglu(Operands operands, const Attributes& attributes);
Inferred InferCast(Operands operands, const Attributes& attributes);
Inferred InferToPixels(Operands operands, const Attributes& attributes);
Inferred InferIncrement(Operands operands, const Attributes& attributes);
Inferred InferBinary(Operands operands, const Attributes& attributes);

// 8-bit products (infer_f8.cc).
Inferred InferF8Scale(Operands operands, const Attributes& attributes);
Inferred InferQuantize(Operands operands, const Attributes& attributes);
Inferred InferF8Linear(Operands operands, const Attributes& attributes);
Inferred InferF8Conv2d(Operands operands, const Attributes& attributes);

// Movement and embeddings (infer_movement.cc).
Inferred InferConcat(Operands operands, const Attributes& attributes);
Inferred InferSlice(Operands operands, const Attributes& attributes);
Inferred InferReshape(Operands operands, const Attributes& attributes);
Inferred InferPermute(Operands operands, const Attributes& attributes);
Inferred InferUpsampleNearest(Operands operands, const Attributes& attributes);
Inferred InferEmbedding(Operands operands, const Attributes& attributes);
Inferred InferSelect(Operands operands, const Attributes& attributes);
Inferred InferTimestepEmbedding(Operands operands, const Attributes& attributes);

// Sampling (infer_scheduler_step.cc).
Inferred InferSchedulerStep(Operands operands, const Attributes& attributes);

// Bodies (infer_fused.cc).
Inferred InferFused(Operands operands, const Attributes& attributes);

}  // namespace latentd::graph
