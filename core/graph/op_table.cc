#include "core/graph/op_table.h"

#include <iterator>

#include "absl/strings/str_join.h"
#include "core/base/errors/status_macros.h"
#include "core/graph/infer_rules.h"

namespace latentd::graph {
namespace {

constexpr int kUnbounded = -1;

Inferred InferLeaf(Operands, const Attributes&) {
  return Mismatch("a leaf's type is declared, not inferred");
}

template <typename T>
Attributes Of() {
  return T();
}
constexpr auto kNo = Of<std::monostate>;

using enum RowRule;
using enum PrecisionRule;
using enum LayoutRule;
using enum ActivationRule;
using enum MemoryRule;

constexpr OpRow kRows[] = {
    {Op::kInput, "input", 0, 0, kNo, InferLeaf, kKeeps, kNever, kPlain, kNoActivation, kOwn},
    {Op::kWeight, "weight", 0, 0, kNo, InferLeaf, kKeeps, kNever, kPlain, kNoActivation, kOwn},
    {Op::kConstant, "constant", 0, 0, Of<ConstantAttributes>, InferLeaf, kKeeps, kNever, kPlain,
     kNoActivation, kOwn},

    {Op::kConv2d, "conv2d", 2, 3, Of<Conv2dAttributes>, InferConv2d, kFirst, kWeight, kImages,
     kNoActivation, kOwn},
    {Op::kLinear, "linear", 2, 3, kNo, InferLinear, kLastDimension, kWeight, kPlain, kNoActivation,
     kOwn},
    {Op::kMatmul, "matmul", 2, 2, kNo, InferMatmul, kBatch, kNever, kPlain, kNoActivation, kOwn},
    {Op::kAttention, "attention", 3, 3, Of<AttentionAttributes>, InferAttention, kKeeps, kQuery,
     kPlain, kNoActivation, kOwn},
    {Op::kLowRank, "low_rank", 6, 6, kNo, InferLowRank, kPooled, kNever, kPlain, kNoActivation,
     kOwn},

    {Op::kGroupNorm, "group_norm", 3, 3, Of<GroupNormAttributes>, InferGroupNorm, kFirst, kAll,
     kImages, kNoActivation, kOwn},
    {Op::kLayerNorm, "layer_norm", 3, 3, Of<LayerNormAttributes>, InferLayerNorm, kLastDimension,
     kAll, kPlain, kNoActivation, kOwn},
    {Op::kSoftmax, "softmax", 1, 1, kNo, InferSoftmax, kLastDimension, kNever, kPlain,
     kNoActivation, kOwn},
    {Op::kRowStd, "row_std", 1, 1, kNo, InferRowStd, kKeeps, kNever, kPlain, kNoActivation, kOwn},
    {Op::kIsFinite, "is_finite", 1, 1, kNo, InferIsFinite, kKeeps, kAny, kUnordered, kNoActivation,
     kOwn},
    {Op::kRowNorm, "row_norm", 1, 1, Of<RowNormAttributes>, InferRowNorm, kKeeps, kNever, kPlain,
     kNoActivation, kOwn},

    {Op::kSilu, "silu", 1, 1, kNo, InferUnary, kKeeps, kAll, kFollows, kActivation, kOwn},
    {Op::kGelu, "gelu", 1, 1, kNo, InferUnary, kKeeps, kAll, kFollows, kActivation, kOwn},
    {Op::kQuickGelu, "quick_gelu", 1, 1, kNo, InferUnary, kKeeps, kAll, kFollows, kActivation,
     kOwn},
    {Op::kRelu, "relu", 1, 1, kNo, InferUnary, kKeeps, kAll, kFollows, kActivation, kOwn},
    {Op::kTanh, "tanh", 1, 1, kNo, InferUnary, kKeeps, kAll, kFollows, kNoActivation, kOwn},
    {Op::kExp, "exp", 1, 1, kNo, InferUnary, kKeeps, kNever, kFollows, kNoActivation, kOwn},
    {Op::kClamp, "clamp", 1, 1, Of<ClampAttributes>, InferClamp, kKeeps, kAll, kFollows,
     kNoActivation, kOwn},
    {Op::kGeglu, "geglu", 1, 1, kNo, InferGeglu, kLastDimension, kAll, kPlain, kNoActivation, kOwn},
    {Op::kCast, "cast", 1, 1, Of<CastAttributes>, InferCast, kKeeps, kNever, kFollows,
     kNoActivation, kOwn},
    {Op::kToPixels, "to_pixels", 1, 1, kNo, InferToPixels, kKeeps, kAny, kFollows, kNoActivation,
     kOwn},
    {Op::kIncrement, "increment", 1, 1, kNo, InferIncrement, kKeeps, kNever, kPlain, kNoActivation,
     kInPlace},

    {Op::kAdd, "add", 2, 2, kNo, InferBinary, kBroadcast, kAll, kFollows, kNoActivation, kInPlace},
    {Op::kSub, "sub", 2, 2, kNo, InferBinary, kBroadcast, kAll, kFollows, kNoActivation, kInPlace},
    {Op::kMul, "mul", 2, 2, kNo, InferBinary, kBroadcast, kAll, kFollows, kNoActivation, kInPlace},
    {Op::kDiv, "div", 2, 2, kNo, InferBinary, kBroadcast, kAll, kFollows, kNoActivation, kInPlace},

    {Op::kF8Scale, "f8_scale", 1, 1, kNo, InferF8Scale, kKeeps, kNever, kPlain, kNoActivation,
     kOwn},
    {Op::kQuantize, "quantize", 2, 2, kNo, InferQuantize, kFirst, kNever, kFollows, kNoActivation,
     kOwn},
    {Op::kF8Linear, "f8_linear", 3, 4, Of<F8LinearAttributes>, InferF8Linear, kLastDimension,
     kNever, kPlain, kNoActivation, kOwn},
    {Op::kF8Conv2d, "f8_conv2d", 3, 4, Of<F8Conv2dAttributes>, InferF8Conv2d, kFirst, kNever,
     kImages, kNoActivation, kOwn},

    {Op::kConcat, "concat", 1, kUnbounded, Of<ConcatAttributes>, InferConcat, kAxis, kAll, kFollows,
     kNoActivation, kOwn},
    {Op::kSlice, "slice", 1, 1, Of<SliceAttributes>, InferSlice, kAxis, kAll, kFollows,
     kNoActivation, kView},
    {Op::kReshape, "reshape", 1, 1, Of<ReshapeAttributes>, InferReshape, kKeeps, kAll, kPlain,
     kNoActivation, kView},
    {Op::kPermute, "permute", 1, 1, Of<PermuteAttributes>, InferPermute, kOrder, kAll, kPlain,
     kNoActivation, kView},
    {Op::kUpsampleNearest, "upsample_nearest", 1, 1, Of<UpsampleAttributes>, InferUpsampleNearest,
     kKeeps, kAll, kImages, kNoActivation, kOwn},
    {Op::kEmbedding, "embedding", 2, 2, kNo, InferEmbedding, kSecond, kTable, kPlain, kNoActivation,
     kOwn},
    {Op::kSelect, "select", 2, 2, kNo, InferSelect, kKeeps, kNever, kPlain, kNoActivation, kOwn},
    {Op::kTimestepEmbedding, "timestep_embedding", 1, 1, Of<TimestepEmbeddingAttributes>,
     InferTimestepEmbedding, kKeeps, kNever, kPlain, kNoActivation, kOwn},
    {Op::kSchedulerStep, "scheduler_step", 4, 4, kNo, InferSchedulerStep, kKeeps, kNever, kPlain,
     kNoActivation, kInPlace},
    {Op::kFused, "fused", 1, kUnbounded, Of<FusedAttributes>, InferFused, kNone, kNever, kPlain,
     kNoActivation, kOwn},
};

constexpr bool EveryOpHasItsRow() {
  if (std::size(kRows) != kOps) return false;
  for (size_t i = 0; i < std::size(kRows); ++i) {
    if (kRows[i].op != static_cast<Op>(i)) return false;
  }
  return true;
}
static_assert(EveryOpHasItsRow());

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

bool ReadsF8(Op op) {
  return op == Op::kCast || op == Op::kF8Linear || op == Op::kF8Conv2d || op == Op::kConcat ||
         op == Op::kFused;
}

Inferred Infer(const OpRow& row, Operands operands, const Attributes& attributes) {
  RETURN_IF_ERROR(CheckCount(row, operands.size()));
  if (attributes.index() != row.attributes().index()) {
    return Mismatch("the attributes are those of another op");
  }
  for (const ValueType& operand : operands) {
    RETURN_IF_ERROR(CheckShape(operand.shape));
    if (device::IsF8(operand.dtype) && !ReadsF8(row.op)) {
      return Mismatch("8-bit floats are for f8_linear and f8_conv2d; cast them first");
    }
  }
  ASSIGN_OR_RETURN(ValueType type, row.infer(operands, attributes));
  RETURN_IF_ERROR(CheckShape(type.shape));
  return type;
}

}  // namespace

absl::Span<const OpRow> OpTable() { return kRows; }

const OpRow& RowOf(Op op) { return kRows[static_cast<size_t>(op)]; }

std::optional<Layout> LayoutOf(const Attributes& attributes) {
  const auto layout = [](const auto& a) -> std::optional<Layout> {
    if constexpr (requires { a.layout; }) return a.layout;
    return std::nullopt;
  };
  return std::visit(layout, attributes);
}

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
