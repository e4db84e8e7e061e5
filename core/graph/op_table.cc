#include "core/graph/op_table.h"

#include "absl/strings/str_join.h"
#include "core/base/status_macros.h"
#include "core/graph/infer_rules.h"

namespace latentd::graph {
namespace {

constexpr int kUnbounded = -1;

Inferred InferLeaf(Operands, const Attributes&) {
  return Mismatch("a leaf's type is declared, not inferred");
}

const std::vector<OpRow>& Rows() {
  using enum RowRule;
  using enum PrecisionRule;
  static const auto& rows = *new std::vector<OpRow>{
      {Op::kInput, "input", 0, 0, {}, InferLeaf, kKeeps, kNever},
      {Op::kWeight, "weight", 0, 0, {}, InferLeaf, kKeeps, kNever},
      {Op::kConstant, "constant", 0, 0, ConstantAttributes{}, InferLeaf, kKeeps, kNever},

      {Op::kConv2d, "conv2d", 2, 3, Conv2dAttributes{}, InferConv2d, kFirst, kWeight},
      {Op::kLinear, "linear", 2, 3, {}, InferLinear, kLastDimension, kWeight},
      {Op::kMatmul, "matmul", 2, 2, {}, InferMatmul, kBatch, kNever},
      {Op::kAttention, "attention", 3, 3, AttentionAttributes{}, InferAttention, kKeeps, kQuery},

      {Op::kGroupNorm, "group_norm", 3, 3, GroupNormAttributes{}, InferGroupNorm, kFirst, kAll},
      {Op::kLayerNorm, "layer_norm", 3, 3, LayerNormAttributes{}, InferLayerNorm, kLastDimension,
       kAll},
      {Op::kSoftmax, "softmax", 1, 1, {}, InferSoftmax, kLastDimension, kNever},
      {Op::kRowStd, "row_std", 1, 1, {}, InferRowStd, kKeeps, kNever},

      {Op::kSilu, "silu", 1, 1, {}, InferUnary, kKeeps, kAll},
      {Op::kGelu, "gelu", 1, 1, {}, InferUnary, kKeeps, kAll},
      {Op::kQuickGelu, "quick_gelu", 1, 1, {}, InferUnary, kKeeps, kAll},
      {Op::kRelu, "relu", 1, 1, {}, InferUnary, kKeeps, kAll},
      {Op::kTanh, "tanh", 1, 1, {}, InferUnary, kKeeps, kAll},
      {Op::kGeglu, "geglu", 1, 1, {}, InferGeglu, kLastDimension, kAll},
      {Op::kCast, "cast", 1, 1, CastAttributes{}, InferCast, kKeeps, kNever},

      {Op::kAdd, "add", 2, 2, {}, InferBinary, kBroadcast, kAll},
      {Op::kSub, "sub", 2, 2, {}, InferBinary, kBroadcast, kAll},
      {Op::kMul, "mul", 2, 2, {}, InferBinary, kBroadcast, kAll},
      {Op::kDiv, "div", 2, 2, {}, InferBinary, kBroadcast, kAll},

      {Op::kConcat, "concat", 1, kUnbounded, ConcatAttributes{}, InferConcat, kAxis, kAll},
      {Op::kSlice, "slice", 1, 1, SliceAttributes{}, InferSlice, kAxis, kAll},
      {Op::kReshape, "reshape", 1, 1, ReshapeAttributes{}, InferReshape, kKeeps, kAll},
      {Op::kPermute, "permute", 1, 1, PermuteAttributes{}, InferPermute, kOrder, kAll},
      {Op::kUpsampleNearest, "upsample_nearest", 1, 1, UpsampleAttributes{}, InferUpsampleNearest,
       kKeeps, kAll},
      {Op::kEmbedding, "embedding", 2, 2, {}, InferEmbedding, kSecond, kTable},
      {Op::kTimestepEmbedding, "timestep_embedding", 1, 1, TimestepEmbeddingAttributes{},
       InferTimestepEmbedding, kKeeps, kNever},
      {Op::kFused, "fused", 1, kUnbounded, FusedAttributes{}, InferFused, kNone, kNever},
  };
  return rows;
}

// "conv2d(f32[2,3,8,8], f32[4,4,3,3])", cut where a node has very many operands.
std::string Describe(const OpRow& row, Operands operands) {
  constexpr size_t kShown = 8;
  const auto append = [](std::string* out, const ValueType& type) { out->append(ToString(type)); };
  return absl::StrCat(row.name, "(", absl::StrJoin(operands.subspan(0, kShown), ", ", append),
                      operands.size() > kShown ? ", ..." : "", ")");
}

absl::Status CheckCount(const OpRow& row, size_t count) {
  const bool too_many =
      row.max_operands != kUnbounded && count > static_cast<size_t>(row.max_operands);
  if (count >= static_cast<size_t>(row.min_operands) && !too_many) return absl::OkStatus();
  return Mismatch("takes ", row.min_operands, " to ",
                  row.max_operands == kUnbounded ? "any number of" : absl::StrCat(row.max_operands),
                  " operands, got ", count);
}

Inferred Infer(const OpRow& row, Operands operands, const Attributes& attributes) {
  RETURN_IF_ERROR(CheckCount(row, operands.size()));
  if (attributes.index() != row.attributes.index()) {
    return Mismatch("the attributes are those of another op");
  }
  for (const ValueType& operand : operands) RETURN_IF_ERROR(CheckShape(operand.shape));
  ASSIGN_OR_RETURN(ValueType type, row.infer(operands, attributes));
  RETURN_IF_ERROR(CheckShape(type.shape));
  return type;
}

}  // namespace

absl::Span<const OpRow> OpTable() { return Rows(); }

const OpRow& RowOf(Op op) { return Rows()[static_cast<size_t>(op)]; }

std::string ToString(const ValueType& type) {
  return absl::StrCat(device::Name(type.dtype), type.shape.ToString());
}

absl::Status CheckShape(const Shape& shape) {
  if (shape.rank() > kMaxRank) return Mismatch("a rank of ", shape.rank(), " exceeds ", kMaxRank);
  int64_t elements = 1;
  for (int64_t size : shape.dims()) {
    if (size < 1) return Mismatch("shape ", shape.ToString(), " has a size below 1");
    if (size > kMaxElements / elements)
      return Mismatch("shape ", shape.ToString(), " is too large");
    elements *= size;
  }
  return absl::OkStatus();
}

absl::StatusOr<ValueType> InferType(Op op, Operands operands, const Attributes& attributes) {
  const OpRow& row = RowOf(op);
  Inferred type = Infer(row, operands, attributes);
  if (type.ok()) return type;
  return absl::InvalidArgumentError(
      absl::StrCat(Describe(row, operands), ": ", type.status().message()));
}

absl::Status CheckOneFloatType(Operands operands) {
  for (const ValueType& operand : operands) {
    if (!IsFloat(operand.dtype)) return Mismatch("operands must be floating-point");
    if (operand.dtype != operands[0].dtype) return Mismatch("operands must have one dtype");
  }
  return absl::OkStatus();
}

absl::Status CheckRank(const ValueType& operand, int rank, absl::string_view what) {
  if (operand.shape.rank() == rank) return absl::OkStatus();
  return Mismatch(what, " must have ", rank, " dimensions, has ", operand.shape.rank());
}

ImageAxes AxesOf(Layout layout) {
  return layout == Layout::kNchw ? ImageAxes{1, 2, 3} : ImageAxes{3, 1, 2};
}

Shape ImageShape(Layout layout, int64_t rows, int64_t channels, int64_t height, int64_t width) {
  return layout == Layout::kNchw ? Shape{rows, channels, height, width}
                                 : Shape{rows, height, width, channels};
}

}  // namespace latentd::graph
