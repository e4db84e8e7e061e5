#include <cmath>
#include <limits>

#include "core/base/errors/status_macros.h"
#include "core/graph/infer_rules.h"

namespace latentd::graph {
namespace {

// Far above any picture, far below where sums of a few overflow.
constexpr int64_t kMaxWindow = int64_t{1} << 31;

absl::Status CheckBias(Operands operands, int64_t outputs) {
  if (operands.size() < 3 || operands[2].shape == Shape{outputs}) return absl::OkStatus();
  return Mismatch("bias ", operands[2].shape.ToString(), " must be [", outputs, "]");
}

// Result positions along one side of the image.
absl::StatusOr<int64_t> WindowCount(int64_t size, int64_t before, int64_t after, int64_t kernel,
                                    int64_t stride) {
  if (before < 0 || after < 0 || before > kMaxWindow || after > kMaxWindow) {
    return Mismatch("padding ", before, " and ", after, " must be between 0 and ", kMaxWindow);
  }
  const int64_t padded = size + before + after;
  if (padded < kernel) {
    return Mismatch("a kernel of ", kernel, " does not fit into ", padded, " padded pixels");
  }
  return (padded - kernel) / stride + 1;
}

absl::Status CheckType(const ValueType& operand, absl::string_view what, const ValueType& wanted) {
  if (operand == wanted) return absl::OkStatus();
  return Mismatch(what, " ", ToString(operand), " must be ", ToString(wanted));
}

// OK iff base and x are lines of as many rows, the same but for their length.
absl::Status CheckLines(const Shape& base, const Shape& x) {
  bool same = base.rank() == x.rank();
  for (int i = 0; same && i < base.rank() - 1; ++i) same = base[i] == x[i];
  if (same && base.rank() >= 2) return absl::OkStatus();
  return Mismatch("base ", base.ToString(), " and x ", x.ToString(),
                  " must have at least two dimensions, equal but for the last");
}

}  // namespace

absl::StatusOr<Shape> ConvolvedShape(const ValueType& x, const ValueType& weight,
                                     const Conv2dAttributes& conv) {
  RETURN_IF_ERROR(CheckRank(x, 4, "x"));
  RETURN_IF_ERROR(CheckRank(weight, 4, "weight"));
  const ImageAxes axes = AxesOf(conv.layout);
  const Shape &from = x.shape, &kernel = weight.shape;
  if (from[axes.channels] != kernel[1]) {
    return Mismatch("weight takes ", kernel[1], " channels, x has ", from[axes.channels]);
  }
  if (conv.stride < 1) return Mismatch("stride ", conv.stride, " must be at least 1");
  ASSIGN_OR_RETURN(const int64_t height, WindowCount(from[axes.height], conv.padding.top,
                                                     conv.padding.bottom, kernel[2], conv.stride));
  ASSIGN_OR_RETURN(const int64_t width, WindowCount(from[axes.width], conv.padding.left,
                                                    conv.padding.right, kernel[3], conv.stride));
  return ImageShape(conv.layout, from[0], kernel[0], height, width);
}

Inferred InferConv2d(Operands operands, const Attributes& attributes) {
  RETURN_IF_ERROR(CheckOneFloatType(operands));
  ASSIGN_OR_RETURN(Shape shape, ConvolvedShape(operands[0], operands[1],
                                               std::get<Conv2dAttributes>(attributes)));
  RETURN_IF_ERROR(CheckBias(operands, operands[1].shape[0]));
  return ValueType{operands[0].dtype, std::move(shape)};
}

Inferred InferLinear(Operands operands, const Attributes&) {
  RETURN_IF_ERROR(CheckOneFloatType(operands));
  RETURN_IF_ERROR(CheckRank(operands[1], 2, "weight"));
  const Shape& x = operands[0].shape;
  const Shape& weight = operands[1].shape;
  if (x.rank() < 1) return Mismatch("x must have at least one dimension");
  if (x[-1] != weight[1]) return Mismatch("weight takes ", weight[1], " features, x has ", x[-1]);
  RETURN_IF_ERROR(CheckBias(operands, weight[0]));
  std::vector<int64_t> dims = x.dims();
  dims.back() = weight[0];
  return ValueType{operands[0].dtype, Shape(std::move(dims))};
}

Inferred InferMatmul(Operands operands, const Attributes&) {
  RETURN_IF_ERROR(CheckOneFloatType(operands));
  const Shape& a = operands[0].shape;
  const Shape& b = operands[1].shape;
  if (a.rank() < 2) return Mismatch("a must have at least two dimensions");
  RETURN_IF_ERROR(CheckRank(operands[1], a.rank(), "b"));
  for (int i = 0; i < a.rank() - 2; ++i) {
    if (a[i] != b[i]) return Mismatch("dimension ", i, " is ", a[i], " in a and ", b[i], " in b");
  }
  if (a[-1] != b[-2]) return Mismatch("a has ", a[-1], " columns, b has ", b[-2], " rows");
  std::vector<int64_t> dims = a.dims();
  dims.back() = b[-1];
  return ValueType{operands[0].dtype, Shape(std::move(dims))};
}

Inferred InferAttention(Operands operands, const Attributes& attributes) {
  const auto& attention = std::get<AttentionAttributes>(attributes);
  RETURN_IF_ERROR(CheckOneFloatType(operands));
  RETURN_IF_ERROR(CheckRank(operands[0], 3, "query"));
  RETURN_IF_ERROR(CheckRank(operands[1], 3, "key"));
  const Shape& query = operands[0].shape;
  const Shape& key = operands[1].shape;
  if (operands[2].shape != key) return Mismatch("key and value must have one shape");
  if (query[0] != key[0]) return Mismatch("query has ", query[0], " rows, key has ", key[0]);
  if (query[2] != key[2]) {
    return Mismatch("query has ", query[2], " channels, key has ", key[2]);
  }
  if (attention.heads < 1 || query[2] % attention.heads != 0) {
    return Mismatch(attention.heads, " heads do not divide ", query[2], " channels");
  }
  if (!std::isfinite(attention.scale)) return Mismatch("scale must be finite");
  return operands[0];
}

Inferred InferLowRank(Operands operands, const Attributes&) {
  RETURN_IF_ERROR(CheckOneFloatType(operands.subspan(0, 4)));
  const Shape &base = operands[0].shape, &x = operands[1].shape;
  RETURN_IF_ERROR(CheckLines(base, x));
  RETURN_IF_ERROR(CheckRank(operands[2], 3, "down"));
  const DType dtype = operands[0].dtype;
  const int64_t slots = operands[2].shape[0], rank = operands[2].shape[1];
  RETURN_IF_ERROR(CheckType(operands[2], "down", {dtype, Shape{slots, rank, x[-1]}}));
  RETURN_IF_ERROR(CheckType(operands[3], "up", {dtype, Shape{slots, base[-1], rank}}));
  RETURN_IF_ERROR(CheckType(operands[4], "slot", {DType::kI64, Shape{base[0]}}));
  RETURN_IF_ERROR(CheckType(operands[5], "scale", {DType::kF32, Shape{base[0], rank}}));
  return operands[0];
}

}  // namespace latentd::graph
