#include "core/graph/op_table.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <limits>

#include "tests/support/status_matchers.h"

namespace latentd::graph {
namespace {

using ::testing::HasSubstr;
using testing::IsOk;
using ::testing::Not;
using testing::StatusIs;

constexpr int64_t kHuge = std::numeric_limits<int64_t>::max();
constexpr int64_t kLowest = std::numeric_limits<int64_t>::min();

ValueType E4M3(Shape shape) { return {DType::kF8E4M3, std::move(shape)}; }
ValueType F32(Shape shape) { return {DType::kF32, std::move(shape)}; }

// True if a row with these of its facts, in order, compiles.
template <auto... kFacts>
concept CompilesWith = requires {
  OpRow{Op::kSilu, "silu", 1, 1, nullptr, nullptr, kFacts...};
};
static_assert(!CompilesWith<>);
static_assert(!CompilesWith<RowRule::kKeeps, PrecisionRule::kAll>);
static_assert(!CompilesWith<RowRule::kKeeps, PrecisionRule::kAll, LayoutRule::kFollows,
                            ActivationRule::kActivation>);
static_assert(CompilesWith<RowRule::kKeeps, PrecisionRule::kAll, LayoutRule::kFollows,
                           ActivationRule::kActivation, MemoryRule::kOwn>);

// Operands of low_rank: base, x, down, up, slot, scale.
std::vector<ValueType> PathOperands() {
  return {F32({2, 7, 8}), F32({2, 7, 6}),          F32({5, 3, 6}),
          F32({5, 8, 3}), {DType::kI64, Shape{2}}, F32({2, 3})};
}

struct GoodCase {
  Op op;
  std::vector<ValueType> operands;
  Attributes attributes;
  ValueType result;
};

std::vector<GoodCase> GoodF8Cases() {
  const ValueType x = F32({2, 4, 8, 6});
  return {
      {Op::kF8Scale, {F32({})}, {}, F32({})},
      {Op::kQuantize, {x, F32({})}, {}, {DType::kF8E4M3, x.shape}},
      {Op::kF8Linear,
       {E4M3({2, 7, 16}), E4M3({32, 16}), F32({}), {DType::kF16, Shape{32}}},
       F8LinearAttributes{DType::kF16},
       {DType::kF16, Shape{2, 7, 32}}},
      {Op::kF8Conv2d,
       {E4M3({2, 4, 8, 6}), E4M3({5, 4, 3, 3}), F32({}), {DType::kBF16, Shape{5}}},
       F8Conv2dAttributes{2, {1, 1, 1, 1}, Layout::kNchw, DType::kBF16},
       {DType::kBF16, Shape{2, 5, 4, 3}}},
  };
}

std::vector<GoodCase> GoodPlainCases() {
  const ValueType x = F32({2, 4, 8, 6});
  const ValueType tokens = F32({2, 7, 8});
  return {
      {Op::kConv2d, {x, F32({5, 4, 3, 3})}, Conv2dAttributes{2, {1, 1, 1, 1}}, F32({2, 5, 4, 3})},
      {Op::kConv2d, {x, F32({5, 4, 3, 3})}, Conv2dAttributes{2, {0, 0, 1, 1}}, F32({2, 5, 4, 3})},
      {Op::kConv2d,
       {F32({2, 8, 6, 4}), F32({5, 4, 1, 1}), F32({5})},
       Conv2dAttributes{.layout = Layout::kNhwc},
       F32({2, 8, 6, 5})},
      {Op::kLinear, {tokens, F32({3, 8}), F32({3})}, {}, F32({2, 7, 3})},
      {Op::kMatmul, {F32({5, 2, 3}), F32({5, 3, 4})}, {}, F32({5, 2, 4})},
      {Op::kAttention, {tokens, F32({2, 9, 8}), F32({2, 9, 8})}, AttentionAttributes{4}, tokens},
      {Op::kLowRank, PathOperands(), {}, tokens},
      {Op::kGroupNorm, {x, F32({4}), F32({4})}, GroupNormAttributes{2}, x},
      {Op::kGroupNorm,
       {x, F32({6}), F32({6})},
       GroupNormAttributes{.groups = 3, .layout = Layout::kNhwc},
       x},
      {Op::kLayerNorm, {tokens, F32({8}), F32({8})}, LayerNormAttributes{}, tokens},
      {Op::kSoftmax, {tokens}, {}, tokens},
      {Op::kRowStd, {x}, {}, F32({2, 1, 1, 1})},
      {Op::kIsFinite, {x}, {}, {DType::kU8, Shape{2}}},
      {Op::kRowNorm, {x}, RowNormAttributes{true}, F32({2, 1, 1, 1})},
      {Op::kSilu, {x}, {}, x},
      {Op::kGelu, {x}, {}, x},
      {Op::kQuickGelu, {x}, {}, x},
      {Op::kRelu, {x}, {}, x},
      {Op::kTanh, {x}, {}, x},
      {Op::kExp, {x}, {}, x},
      {Op::kClamp, {x}, ClampAttributes{-1, 2}, x},
      {Op::kGeglu, {tokens}, {}, F32({2, 7, 4})},
      {Op::kCast, {x}, CastAttributes{DType::kBF16}, {DType::kBF16, x.shape}},
      {Op::kToPixels, {x}, {}, {DType::kU8, x.shape}},
      {Op::kIncrement, {{DType::kI64, Shape{3}}}, {}, {DType::kI64, Shape{3}}},
      {Op::kAdd, {x, F32({4, 1, 1})}, {}, x},
      {Op::kSub, {F32({}), x}, {}, x},
      {Op::kMul, {F32({2, 1}), F32({1, 3})}, {}, F32({2, 3})},
      {Op::kDiv, {x, F32({1})}, {}, x},
      {Op::kConcat, {x, F32({2, 3, 8, 6})}, ConcatAttributes{1}, F32({2, 7, 8, 6})},
      {Op::kSlice, {x}, SliceAttributes{2, 3, 5}, F32({2, 4, 2, 6})},
      {Op::kReshape, {x}, ReshapeAttributes{Shape{8, 48}}, F32({8, 48})},
      {Op::kPermute, {x}, PermuteAttributes{{0, 2, 3, 1}}, F32({2, 8, 6, 4})},
      {Op::kUpsampleNearest, {x}, UpsampleAttributes{9, 5}, F32({2, 4, 9, 5})},
      {Op::kEmbedding, {F32({100, 16}), {DType::kI64, Shape{2, 77}}}, {}, F32({2, 77, 16})},
      {Op::kSelect, {tokens, {DType::kI64, Shape{2}}}, {}, F32({2, 8})},
      {Op::kTimestepEmbedding, {F32({3})}, TimestepEmbeddingAttributes{32}, F32({3, 32})},
      {Op::kSchedulerStep,
       {F32({2, 4, 192}), F32({2, 192}), F32({2, 192}), F32({2, 27})},
       {},
       F32({2, 4, 192})},
  };
}

// At least one case for every op.
std::vector<GoodCase> GoodCases() {
  std::vector<GoodCase> cases = GoodPlainCases();
  for (const GoodCase& f8 : GoodF8Cases()) cases.push_back(f8);
  return cases;
}

TEST(OpTable, AnOpOfImagesNamesTheirLayout) {
  for (const OpRow& row : OpTable()) {
    EXPECT_EQ(row.layout.rule == LayoutRule::kImages, LayoutOf(row.attributes()).has_value())
        << row.name;
  }
}

// Facts that passes and backends assume of an op that they know by its facts alone.
TEST(OpTable, AnActivationIsElementwise) {
  const ValueType x = F32({2, 4, 8, 6});
  for (const OpRow& row : OpTable()) {
    if (!IsActivation(row.op)) continue;
    EXPECT_EQ(row.layout.rule, LayoutRule::kFollows) << row.name;
    EXPECT_EQ(row.precision.rule, PrecisionRule::kAll) << row.name;
    ASSERT_OK_AND_ASSIGN(const ValueType result, InferType(row.op, {x}, row.attributes()));
    EXPECT_EQ(ToString(result), ToString(x)) << row.name;
  }
}

TEST(OpTable, InfersTheResultOfEveryOp) {
  std::vector<bool> seen(OpTable().size(), false);
  for (const GoodCase& good : GoodCases()) {
    SCOPED_TRACE(RowOf(good.op).name);
    seen[static_cast<size_t>(good.op)] = true;
    const absl::StatusOr<ValueType> result = InferType(good.op, good.operands, good.attributes);
    ASSERT_OK(result);
    EXPECT_EQ(ToString(*result), ToString(good.result));
  }
  for (const OpRow& row : OpTable()) {
    if (IsLeaf(row.op) || row.op == Op::kFused) continue;
    EXPECT_TRUE(seen[static_cast<size_t>(row.op)]) << row.name;
  }
}

TEST(OpTable, RefusesEveryOtherNumberOfOperands) {
  for (const GoodCase& good : GoodCases()) {
    SCOPED_TRACE(RowOf(good.op).name);
    EXPECT_THAT(InferType(good.op, {}, good.attributes), Not(IsOk()));
    if (RowOf(good.op).max_operands < 0) continue;
    std::vector<ValueType> many(RowOf(good.op).max_operands + 1, good.operands[0]);
    EXPECT_THAT(InferType(good.op, many, good.attributes),
                StatusIs(absl::StatusCode::kInvalidArgument, HasSubstr("operands, got")));
  }
}

TEST(OpTable, RefusesTheAttributesOfAnotherOp) {
  for (const GoodCase& good : GoodCases()) {
    for (const OpRow& other : OpTable()) {
      if (other.attributes().index() == good.attributes.index()) continue;
      EXPECT_THAT(InferType(good.op, good.operands, other.attributes()),
                  StatusIs(absl::StatusCode::kInvalidArgument, HasSubstr("of another op")))
          << RowOf(good.op).name << " with those of " << other.name;
    }
  }
}

TEST(OpTable, RefusesHostileShapesForEveryOperand) {
  const Shape hostile[] = {
      {0}, {-1, 4}, {kLowest, 2}, {kHuge, kHuge}, {kHuge}, {1, 1, 1, 1, 1, 1, 1, 1, 1}};
  for (const GoodCase& good : GoodCases()) {
    for (size_t i = 0; i < good.operands.size(); ++i) {
      for (const Shape& shape : hostile) {
        std::vector<ValueType> operands = good.operands;
        operands[i].shape = shape;
        EXPECT_THAT(InferType(good.op, operands, good.attributes), Not(IsOk()))
            << RowOf(good.op).name << " " << shape.ToString();
      }
    }
  }
}

TEST(OpTable, RefusesOrIgnoresOtherShapesWithoutCrashing) {
  const Shape others[] = {{}, {3}, {3, 5}, {3, 5, 7}, {3, 5, 7, 9}, {int64_t{1} << 40, 1, 1, 128}};
  for (const GoodCase& good : GoodCases()) {
    for (size_t i = 0; i < good.operands.size(); ++i) {
      for (const Shape& shape : others) {
        std::vector<ValueType> operands = good.operands;
        operands[i].shape = shape;
        if (auto result = InferType(good.op, operands, good.attributes); result.ok()) {
          EXPECT_OK(CheckShape(result->shape));
        }
      }
    }
  }
}

struct BadAttributes {
  Op op;
  std::vector<ValueType> operands;
  Attributes attributes;
  std::string message;
};

TEST(OpTable, NamesWhatIsWrongWithAttributes) {
  const ValueType x = F32({2, 4, 8, 6});
  const ValueType kernel = F32({5, 4, 3, 3});
  const ValueType tokens = F32({2, 7, 8});
  const float nan = std::numeric_limits<float>::quiet_NaN();
  const BadAttributes cases[] = {
      {Op::kConv2d, {x, kernel}, Conv2dAttributes{0}, "stride 0"},
      {Op::kConv2d, {x, kernel}, Conv2dAttributes{kLowest}, "stride"},
      {Op::kConv2d, {x, kernel}, Conv2dAttributes{1, {-1, 0, 0, 0}}, "padding -1"},
      {Op::kConv2d, {x, kernel}, Conv2dAttributes{1, {kHuge, 0, kHuge, 0}}, "padding"},
      {Op::kConv2d, {x, F32({5, 4, 9, 3})}, Conv2dAttributes{}, "does not fit into 8"},
      {Op::kConv2d, {x, kernel}, Conv2dAttributes{.layout = Layout::kNhwc}, "takes 4 channels"},
      {Op::kAttention, {tokens, tokens, tokens}, AttentionAttributes{0}, "0 heads"},
      {Op::kAttention, {tokens, tokens, tokens}, AttentionAttributes{3}, "3 heads"},
      {Op::kAttention, {tokens, tokens, tokens}, AttentionAttributes{1, nan}, "scale"},
      {Op::kGroupNorm, {x, F32({4}), F32({4})}, GroupNormAttributes{3}, "3 groups do not divide"},
      {Op::kGroupNorm, {x, F32({4}), F32({4})}, GroupNormAttributes{0}, "0 groups"},
      {Op::kGroupNorm, {x, F32({4}), F32({4})}, GroupNormAttributes{2, nan}, "epsilon"},
      {Op::kLayerNorm, {tokens, F32({8}), F32({8})}, LayerNormAttributes{-1}, "epsilon -1"},
      {Op::kClamp, {x}, ClampAttributes{2, 1}, "min 2 must not exceed max 1"},
      {Op::kClamp, {x}, ClampAttributes{nan, 1}, "min nan"},
      {Op::kConcat, {x, x}, ConcatAttributes{4}, "axis 4"},
      {Op::kConcat, {x, x}, ConcatAttributes{-1}, "axis -1"},
      {Op::kSlice, {x}, SliceAttributes{1, 2, 2}, "[2, 2)"},
      {Op::kSlice, {x}, SliceAttributes{1, kLowest, kHuge}, "no part of dimension 1"},
      {Op::kReshape, {x}, ReshapeAttributes{Shape{-1, 4}}, "below 1"},
      {Op::kReshape, {x}, ReshapeAttributes{Shape{kHuge, kHuge}}, "too large"},
      {Op::kReshape, {x}, ReshapeAttributes{Shape{383}}, "has 383 elements"},
      {Op::kPermute, {x}, PermuteAttributes{{0, 1, 2}}, "an order of 3"},
      {Op::kPermute, {x}, PermuteAttributes{{0, 1, 2, 2}}, "every dimension once"},
      {Op::kPermute, {x}, PermuteAttributes{{0, 1, 2, kHuge}}, "every dimension once"},
      {Op::kUpsampleNearest, {x}, UpsampleAttributes{0, 5}, "height 0"},
      {Op::kUpsampleNearest, {x}, UpsampleAttributes{kHuge, kHuge}, "too large"},
      {Op::kTimestepEmbedding, {F32({3})}, TimestepEmbeddingAttributes{1}, "dim 1"},
      {Op::kTimestepEmbedding, {F32({3})}, TimestepEmbeddingAttributes{8, true, 4}, "shift 4"},
      {Op::kTimestepEmbedding, {F32({3})}, TimestepEmbeddingAttributes{kHuge}, "too large"},
      {Op::kFused, {x}, FusedAttributes{"x", nullptr}, "needs a body"},
  };
  for (const BadAttributes& bad : cases) {
    EXPECT_THAT(InferType(bad.op, bad.operands, bad.attributes),
                StatusIs(absl::StatusCode::kInvalidArgument, HasSubstr(bad.message)))
        << RowOf(bad.op).name;
  }
}

TEST(OpTable, RefusesMixedAndIntegerTypesInArithmetic) {
  const ValueType half{DType::kF16, Shape{2}};
  const ValueType integer{DType::kI64, Shape{2}};
  EXPECT_THAT(InferType(Op::kAdd, {F32({2}), half}, {}),
              StatusIs(absl::StatusCode::kInvalidArgument, HasSubstr("one dtype")));
  EXPECT_THAT(InferType(Op::kMul, {integer, integer}, {}),
              StatusIs(absl::StatusCode::kInvalidArgument, HasSubstr("floating-point")));
  EXPECT_THAT(InferType(Op::kEmbedding, {F32({5, 2}), F32({2})}, {}),
              StatusIs(absl::StatusCode::kInvalidArgument, HasSubstr("ids must be i64")));
  EXPECT_OK(InferType(Op::kAdd, {half, half}, {}));
}

TEST(OpTable, FewReadEightBitFloatsAndQuantizeAloneMakesThem) {
  for (const DType dtype : {DType::kF8E4M3, DType::kF8E5M2}) {
    const ValueType stored{dtype, Shape{2, 3}};
    ASSERT_OK_AND_ASSIGN(const ValueType wide,
                         InferType(Op::kCast, {stored}, CastAttributes{DType::kF16}));
    EXPECT_EQ(wide, (ValueType{DType::kF16, stored.shape}));
    EXPECT_THAT(InferType(Op::kPermute, {stored}, PermuteAttributes{{1, 0}}),
                StatusIs(absl::StatusCode::kInvalidArgument, HasSubstr("cast them first")));
    EXPECT_THAT(InferType(Op::kAdd, {stored, stored}, {}),
                StatusIs(absl::StatusCode::kInvalidArgument, HasSubstr("cast them first")));
    EXPECT_THAT(InferType(Op::kCast, {F32({2})}, CastAttributes{dtype}),
                StatusIs(absl::StatusCode::kInvalidArgument, HasSubstr("quantize")));
  }
}

struct BadOperands {
  Op op;
  std::vector<ValueType> operands;
  std::string message;
};

TEST(OpTable, NamesWhatIsWrongWithOperands) {
  const ValueType x = F32({2, 4, 8, 6});
  const ValueType state = F32({2, 4, 192}), latents = F32({2, 192}), lines = F32({2, 27});
  const ValueType ids{DType::kI64, Shape{2}}, table = F32({2, 5, 3});
  const BadOperands cases[] = {
      {Op::kExp, {ids}, "floating-point"},
      {Op::kIsFinite, {ids}, "floating-point"},
      {Op::kIsFinite, {F32({})}, "at least one dimension"},
      {Op::kToPixels, {{DType::kU8, Shape{2}}}, "floating-point"},
      {Op::kF8Scale, {{DType::kBF16, Shape{}}}, "must be f32"},
      {Op::kQuantize, {x, F32({1})}, "scale is f32[1], must be f32[]"},
      {Op::kQuantize, {{DType::kI64, Shape{2}}, F32({})}, "floating-point"},
      {Op::kQuantize, {E4M3({2}), F32({})}, "8-bit floats"},
      {Op::kIncrement, {x}, "must be i64"},
      {Op::kSelect, {x, ids}, "table must have 3 dimensions"},
      {Op::kSelect, {{DType::kBF16, table.shape}, ids}, "table must be f32"},
      {Op::kSelect, {table, F32({2})}, "index must be i64"},
      {Op::kSelect, {table, {DType::kI64, Shape{3}}}, "index [3] must be [2]"},
      {Op::kSchedulerStep, {x, latents, latents, lines}, "state must have 3 dimensions"},
      {Op::kSchedulerStep,
       {F32({2, 3, 192}), latents, latents, lines},
       "state f32[2,3,192] must be"},
      {Op::kSchedulerStep, {state, x, latents, lines}, "output f32[2,4,8,6] must be f32[2,192]"},
      {Op::kSchedulerStep, {state, latents, F32({1, 192}), lines}, "noise f32[1,192] must be"},
      {Op::kSchedulerStep,
       {state, latents, latents, F32({2, 26})},
       "line f32[2,26] must be f32[2,27]"},
  };
  for (const BadOperands& bad : cases) {
    EXPECT_THAT(InferType(bad.op, bad.operands, {}),
                StatusIs(absl::StatusCode::kInvalidArgument, HasSubstr(bad.message)))
        << RowOf(bad.op).name;
  }
}

TEST(OpTable, NamesWhatIsWrongWithAnEightBitProduct) {
  const ValueType x = E4M3({3, 16}), weight = E4M3({32, 16}), scale = F32({});
  const ValueType bias{DType::kBF16, Shape{32}};
  const struct {
    std::vector<ValueType> operands;
    DType to;
    std::string message;
  } cases[] = {
      {{F32({3, 16}), weight, scale}, DType::kBF16, "x is f32, must be f8_e4m3"},
      {{x, F32({32, 16}), scale}, DType::kBF16, "weight is f32, must be f8_e4m3"},
      {{{DType::kF8E5M2, x.shape}, weight, scale}, DType::kBF16, "x is f8_e5m2"},
      {{x, weight, F32({32})}, DType::kBF16, "scale is f32[32], must be f32[]"},
      {{x, E4M3({32, 17}), scale}, DType::kBF16, "weight takes 17 features, x has 16"},
      {{x, weight, scale, bias}, DType::kF16, "bias is bf16[32], must be f16[32]"},
      {{x, weight, scale}, DType::kF32, "the result must be bf16 or f16, not f32"},
      {{E4M3({}), weight, scale}, DType::kBF16, "at least one dimension"},
  };
  for (const auto& bad : cases) {
    EXPECT_THAT(InferType(Op::kF8Linear, bad.operands, F8LinearAttributes{bad.to}),
                StatusIs(absl::StatusCode::kInvalidArgument, HasSubstr(bad.message)));
  }
}

TEST(OpTable, NamesWhatIsWrongWithAnEightBitConvolution) {
  const ValueType x = E4M3({2, 8, 6, 16}), weight = E4M3({32, 16, 3, 3}), scale = F32({});
  const ValueType bias{DType::kBF16, Shape{32}};
  const F8Conv2dAttributes same = {1, {1, 1, 1, 1}, Layout::kNhwc, DType::kBF16};
  const struct {
    std::vector<ValueType> operands;
    F8Conv2dAttributes conv;
    std::string message;
  } cases[] = {
      {{F32({2, 8, 6, 16}), weight, scale}, same, "x is f32, must be f8_e4m3"},
      {{x, F32({32, 16, 3, 3}), scale}, same, "weight is f32, must be f8_e4m3"},
      {{x, weight, F32({32})}, same, "scale is f32[32], must be f32[]"},
      {{x, E4M3({32, 8, 3, 3}), scale}, same, "weight takes 8 channels, x has 16"},
      {{x, E4M3({32, 16}), scale}, same, "weight must have 4 dimensions, has 2"},
      {{x, weight, scale, {DType::kF16, Shape{32}}}, same, "bias is f16[32], must be bf16[32]"},
      {{x, weight, scale, bias}, {0, {1, 1, 1, 1}, Layout::kNhwc, DType::kBF16}, "stride 0"},
      {{x, weight, scale}, {1, {}, Layout::kNhwc, DType::kF32}, "must be bf16 or f16, not f32"},
  };
  for (const auto& bad : cases) {
    EXPECT_THAT(InferType(Op::kF8Conv2d, bad.operands, bad.conv),
                StatusIs(absl::StatusCode::kInvalidArgument, HasSubstr(bad.message)));
  }
}

TEST(OpTable, NamesWhatIsWrongWithALowRankPath) {
  const struct {
    size_t operand;
    ValueType type;
    std::string message;
  } cases[] = {
      {0, F32({8}), "base [8] and x [2,7,6] must have at least two dimensions"},
      {0, F32({2, 6, 8}), "equal but for the last"},
      {1, F32({2, 7, 1, 6}), "equal but for the last"},
      {1, {DType::kBF16, Shape{2, 7, 6}}, "one dtype"},
      {2, F32({5, 18}), "down must have 3 dimensions"},
      {2, F32({5, 3, 7}), "down f32[5,3,7] must be f32[5,3,6]"},
      {3, F32({4, 8, 3}), "up f32[4,8,3] must be f32[5,8,3]"},
      {3, F32({5, 3, 8}), "up f32[5,3,8] must be f32[5,8,3]"},
      {4, F32({2}), "slot f32[2] must be i64[2]"},
      {4, {DType::kI64, Shape{3}}, "slot i64[3] must be i64[2]"},
      {5, F32({2, 4}), "scale f32[2,4] must be f32[2,3]"},
      {5, {DType::kBF16, Shape{2, 3}}, "scale bf16[2,3] must be f32[2,3]"},
  };
  for (const auto& bad : cases) {
    std::vector<ValueType> operands = PathOperands();
    operands[bad.operand] = bad.type;
    EXPECT_THAT(InferType(Op::kLowRank, operands, {}),
                StatusIs(absl::StatusCode::kInvalidArgument, HasSubstr(bad.message)));
  }
}

TEST(OpTable, ALowRankPathHasTheDTypeOfItsBaseAndScalesOfF32) {
  std::vector<ValueType> operands = PathOperands();
  for (size_t i = 0; i < 4; ++i) operands[i].dtype = DType::kBF16;
  ASSERT_OK_AND_ASSIGN(const ValueType result, InferType(Op::kLowRank, operands, {}));
  EXPECT_EQ(result, operands[0]);
}

TEST(OpTable, ALeafHasNoTypeToInfer) {
  EXPECT_THAT(InferType(Op::kInput, {}, {}), Not(IsOk()));
  EXPECT_THAT(InferType(Op::kConstant, {}, ConstantAttributes{{1}}), Not(IsOk()));
}

TEST(OpTable, ConcatOfManyLargePartsDoesNotOverflow) {
  const std::vector<ValueType> parts(70000, F32({kMaxElements}));
  EXPECT_THAT(InferType(Op::kConcat, parts, ConcatAttributes{0}),
              StatusIs(absl::StatusCode::kInvalidArgument, HasSubstr("too large")));
}

}  // namespace
}  // namespace latentd::graph
