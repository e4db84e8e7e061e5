#include "tests/conformance/random_graph.h"

#include <algorithm>
#include <cmath>
#include <optional>
#include <random>

#include "absl/strings/str_cat.h"
#include "core/graph/graph_builder.h"
#include "core/graph/op_table.h"

namespace latentd::testing {
namespace {

using device::DType;
using device::Shape;
using graph::GraphBuilder;
using graph::kNone;
using graph::Layout;
using graph::Op;
using graph::Rate;
using graph::Value;

constexpr int64_t kMaxElements = 4096;

class Generator {
 public:
  explicit Generator(unsigned seed) : random_(seed) {}

  graph::Graph Run() {
    rows_ = Int(1, 3);
    values_ = {Image(), Tokens()};
    for (int i = Int(0, 2); i > 0; --i) values_.push_back(OneOf<Value>({Image(), Tokens(), Row()}));
    const auto ops = Ops();
    for (int i = Int(4, 24); i > 0; --i) {
      const Value made = (this->*ops[Int(0, static_cast<int>(ops.size()) - 1)])();
      if (made.id != kNone.id) values_.push_back(made);
    }
    // Values that were made first and have no reader stay dead code.
    for (int i = Int(1, 3); i > 0; --i) {
      const Value value = i == 1 ? values_.back() : Any();
      b_.Output(absl::StrCat("y", i), Chance(0.1) ? b_.Cast(value, SomeFloat()) : value);
    }
    if (Chance(0.3)) b_.Output("path", LowRank());
    return std::move(b_).Build().value();
  }

 private:
  using Emit = Value (Generator::*)();

  // Ops that patterns end or begin with more than once. Leaves come with what reads them, and fused
  // nodes from passes.
  static std::vector<Emit> Ops() {
    return {&Generator::Conv2d,          &Generator::Conv2d,        &Generator::Conv2d,
            &Generator::Linear,          &Generator::Linear,        &Generator::Linear,
            &Generator::Matmul,          &Generator::Attention,     &Generator::GroupNorm,
            &Generator::GroupNorm,       &Generator::LayerNorm,     &Generator::Softmax,
            &Generator::RowStd,          &Generator::Activation,    &Generator::Activation,
            &Generator::Activation,      &Generator::Bounds,        &Generator::Finite,
            &Generator::Pixels,          &Generator::Geglu,         &Generator::Cast,
            &Generator::Residual,        &Generator::Residual,      &Generator::Binary,
            &Generator::Binary,          &Generator::Concat,        &Generator::Slice,
            &Generator::Reshape,         &Generator::Permute,       &Generator::ToTokensAndBack,
            &Generator::ToTokensAndBack, &Generator::Upsample,      &Generator::Upsample,
            &Generator::Upsample,        &Generator::Embedding,     &Generator::TimestepEmbedding,
            &Generator::Select,          &Generator::SchedulerStep, &Generator::Queries,
            &Generator::NormSilu,        &Generator::UpsampledBlock};
  }

  int Int(int low, int high) { return std::uniform_int_distribution<int>(low, high)(random_); }
  bool Chance(double p) { return std::bernoulli_distribution(p)(random_); }
  template <typename T>
  T OneOf(const std::vector<T>& of) {
    return of[Int(0, static_cast<int>(of.size()) - 1)];
  }
  DType SomeFloat() { return OneOf<DType>({DType::kF16, DType::kBF16, DType::kF32}); }
  Layout SomeLayout() { return Chance(0.8) ? Layout::kNchw : Layout::kNhwc; }
  Rate SomeRate() { return Chance(0.3) ? Rate::kRequest : Rate::kStep; }

  const Shape& ShapeOf(Value value) const { return b_.shape(value); }
  int RankOf(Value value) const { return ShapeOf(value).rank(); }

  // Values to read.
  Value Any() { return Chance(0.6) ? values_.back() : OneOf(values_); }
  Value OfRank(int low, int high) {
    for (int i = 0; i < 8; ++i) {
      const Value value = Any();
      if (RankOf(value) >= low && RankOf(value) <= high) return value;
    }
    return low == 4 ? values_[0] : values_[1];
  }
  Value Same(const Shape& shape) {
    for (int i = 0; i < 8; ++i) {
      const Value value = OneOf(values_);
      if (ShapeOf(value) == shape) return value;
    }
    return kNone;
  }

  // Leaves.
  std::string Name(const std::string& kind) { return absl::StrCat(kind, ++names_); }
  Value Input(Shape shape, const std::string& kind = "x", DType dtype = DType::kF32) {
    return b_.Input(Name(kind), dtype, std::move(shape), SomeRate());
  }
  Value Image() { return Input({rows_, 4 * Int(1, 3), Int(2, 7), Int(2, 7)}); }
  Value Tokens() { return Input({rows_, Int(1, 7), 4 * Int(1, 4)}); }
  Value Row() { return Input({rows_, 4 * Int(1, 4)}); }
  // As checkpoints have them: cast to f32 where they are stored otherwise, now and then scaled.
  Value Weight(Shape shape) {
    const std::string kind = shape.rank() > 1 ? "net/scaled" : "net/w";
    const DType stored = Chance(0.7) ? DType::kF32 : SomeFloat();
    graph::Node leaf{.op = Op::kWeight, .dtype = stored, .shape = shape, .name = Name(kind)};
    Value weight = b_.Append(std::move(leaf));
    if (stored != DType::kF32) weight = b_.Cast(weight, DType::kF32);
    return Chance(0.1) ? b_.Mul(weight, Literal({})) : weight;
  }
  // A constant, or what constants give.
  Value Literal(const Shape& shape) {
    std::vector<float> values(shape.elements());
    for (float& value : values) value = 0.25f * static_cast<float>(Int(1, 6));
    const Value literal = b_.Constant(std::move(values), shape);
    return Chance(0.3) ? b_.Add(literal, b_.Scalar(0.5f)) : literal;
  }

  Value Bounded(Value value) {
    if (ShapeOf(value).elements() <= kMaxElements) return value;
    int widest = 0;
    for (int d = 0; d < RankOf(value); ++d) {
      if (ShapeOf(value)[d] > ShapeOf(value)[widest]) widest = d;
    }
    return Bounded(b_.Slice(value, widest, 0, ShapeOf(value)[widest] / 2));
  }

  Value Conv2d() {
    const Value x = OfRank(4, 4);
    const Layout layout = SomeLayout();
    const Shape s = ShapeOf(x);
    const int channels = layout == Layout::kNchw ? 1 : 3;
    const int64_t out = Chance(0.5) ? s[channels] : 2 * Int(1, 8);
    graph::Conv2dAttributes conv{.stride = Chance(0.8) ? 1 : 2, .layout = layout};
    const int64_t kernel = OneOf<int64_t>({1, 2, 3, 3, 3});
    if (kernel == 3) conv.padding = {1, 1, 1, 1};
    if (Chance(0.2)) conv.padding = {Int(1, 2), Int(1, 2), Int(1, 2), Int(1, 2)};
    if (kernel == 2 && Chance(0.5)) conv.padding.bottom = conv.padding.right = 1;
    const int height = layout == Layout::kNchw ? 2 : 1;
    for (int d : {height, height + 1}) {
      if (s[d] + conv.padding.top + conv.padding.left < 2 * kernel) return kNone;
    }
    const Value weight = Weight({out, s[channels], kernel, kernel});
    const Value y = b_.Conv2d(x, weight, Chance(0.7) ? Weight({out}) : kNone, conv);
    return ShapeOf(y) == s && Chance(0.4) ? b_.Add(x, y) : Bounded(y);
  }

  Value LinearOf(Value x, int64_t out, bool bias) {
    const Value weight = Weight({out, ShapeOf(x)[-1]});
    return Bounded(b_.Linear(x, weight, bias ? Weight({out}) : kNone));
  }
  Value Linear() {
    const Value x = OfRank(1, 4);
    return LinearOf(x, Chance(0.5) ? ShapeOf(x)[-1] : 2 * Int(1, 12), Chance(0.7));
  }

  // A linear with low-rank paths, of which rows have one or none.
  Value LowRank() {
    const Value x = OfRank(2, 3);
    const Value base = LinearOf(x, 2 * Int(1, 8), Chance(0.7));
    const int64_t rows = ShapeOf(x)[0], in = ShapeOf(x)[-1], rank = Int(1, 5);
    const int64_t lines = ShapeOf(base).elements() / ShapeOf(base)[-1];
    if (lines != ShapeOf(x).elements() / in) return base;  // it was cut
    const auto step = [&](const std::string& kind, const Shape& shape, DType dtype = DType::kF32) {
      return b_.Input(Name(kind), dtype, shape, Rate::kStep);
    };
    const Value path = b_.LowRank(base, x,
                                  {.down = step("x", {3, rank, in}),
                                   .up = step("x", {3, ShapeOf(base)[-1], rank}),
                                   .slot = step("ids", {rows}, DType::kI64),
                                   .scale = step("scales", {rows, rank})});
    return Chance(0.5) ? b_.Add(path, base) : path;
  }

  // Self-attention, or of one sequence to another, of whose values some are made.
  Value Attention() {
    const Value x = OfRank(3, 3);
    if (RankOf(x) != 3) return kNone;
    const bool self = Chance(0.6);
    const Value other = self ? x : OfRank(3, 3);
    if (ShapeOf(other)[0] != ShapeOf(x)[0]) return kNone;
    const int64_t heads = Int(1, 3), channels = heads * 2 * Int(1, 4);
    const Value query = LinearOf(x, channels, false);
    const Value key = LinearOf(other, channels, false), value = LinearOf(other, channels, false);
    if (ShapeOf(key) != ShapeOf(value) || ShapeOf(key)[0] != ShapeOf(query)[0]) return kNone;
    return b_.Attention(query, key, value, {heads, 0.5f, self && Chance(0.3)});
  }

  Value Queries() {
    const Value x = OfRank(2, 3);
    const bool bias = Chance(0.5);
    const Value a = LinearOf(x, 2 * Int(1, 4), bias), b = LinearOf(x, 2 * Int(1, 4), bias);
    return Bounded(b_.Concat({a, b}, -1));
  }

  // With itself, the last two dimensions of one turned.
  Value Matmul() {
    const Value x = OfRank(2, 4);
    if (RankOf(x) < 2) return kNone;
    std::vector<int64_t> order;
    for (int d = 0; d < RankOf(x); ++d) order.push_back(d);
    std::swap(order[order.size() - 1], order[order.size() - 2]);
    const float scale = 1 / static_cast<float>(ShapeOf(x)[-1]);
    return Bounded(b_.Mul(b_.Matmul(x, b_.Permute(x, order)), b_.Scalar(scale)));
  }

  Value GroupNorm() {
    const Value x = OfRank(4, 4);
    const Layout layout = SomeLayout();
    const int64_t channels = ShapeOf(x)[layout == Layout::kNchw ? 1 : 3];
    const int64_t groups = channels % 4 == 0 && Chance(0.5) ? 4 : channels % 2 == 0 ? 2 : 1;
    const int64_t elements = ShapeOf(x).elements() / ShapeOf(x)[0] / groups;
    if (elements < 4) return kNone;
    return b_.GroupNorm(x, Weight({channels}), Weight({channels}), {groups, 1e-3f, layout});
  }

  // As residual blocks have it, the time embedding before the norm included.
  Value NormSilu() {
    Value x = OfRank(4, 4);
    if (Chance(0.5)) x = b_.Add(x, Input({ShapeOf(x)[0], ShapeOf(x)[1], 1, 1}));
    const int64_t channels = ShapeOf(x)[1];
    if (ShapeOf(x).elements() / ShapeOf(x)[0] / channels < 4) return kNone;
    return b_.Silu(b_.GroupNorm(x, Weight({channels}), Weight({channels}), {channels, 1e-3f}));
  }

  // An upsampled image and the residual block that reads it, as decoders have them.
  Value UpsampledBlock() {
    const Value x = OfRank(4, 4);
    const int64_t channels = ShapeOf(x)[1], h = ShapeOf(x)[2], w = ShapeOf(x)[3];
    if (4 * ShapeOf(x).elements() > kMaxElements) return kNone;
    const auto conv = [&](Value of, int64_t kernel, double bias) {
      const int64_t pad = kernel / 2;
      const Value weight = Weight({channels, channels, kernel, kernel});
      return b_.Conv2d(of, weight, Chance(bias) ? Weight({channels}) : kNone,
                       {.padding = {pad, pad, pad, pad}});
    };
    const Value image = conv(b_.UpsampleNearest(conv(x, 1, 0.5), 2 * h, 2 * w), 3, 0.9);
    const Value normed = b_.GroupNorm(image, Weight({channels}), Weight({channels}),
                                      {channels % 2 == 0 ? 2 : 1, 1e-3f});
    const Value hidden = conv(b_.Silu(normed), 3, 0.7);
    return b_.Add(Chance(0.5) ? image : conv(image, 1, 0.7), hidden);
  }

  Value LayerNorm() {
    const Value x = OfRank(1, 4);
    const int64_t size = ShapeOf(x)[-1];
    return size < 3 ? kNone : b_.LayerNorm(x, Weight({size}), Weight({size}), 1e-3f);
  }
  Value Softmax() { return b_.Softmax(OfRank(1, 4)); }
  Value RowStd() {
    const Value x = OfRank(2, 4);
    return ShapeOf(x).elements() / ShapeOf(x)[0] < 2 ? kNone : b_.RowStd(x);
  }

  Value Activation() {
    const Op op = OneOf<Op>({Op::kSilu, Op::kGelu, Op::kQuickGelu, Op::kRelu, Op::kTanh});
    return b_.Append({.op = op, .operands = {Any().id}});
  }
  Value Bounds() {
    const Value bounded = b_.Clamp(Any(), -2, 1.5f);
    return Chance(0.5) ? b_.Exp(bounded) : bounded;
  }
  // Rows that are not finite would become 0.
  Value Finite() {
    const Value x = OfRank(1, 4);
    std::vector<int64_t> ones(RankOf(x), 1);
    ones[0] = ShapeOf(x)[0];
    return b_.Mul(x, b_.Reshape(b_.Cast(b_.IsFinite(x), DType::kF32), Shape(ones)));
  }
  // Pixels of an input, since bytes jump where computed values differ a little.
  Value Pixels() {
    const Value image = Image(), pixels = b_.ToPixels(b_.Permute(image, {0, 2, 3, 1}));
    const Value unit = b_.Mul(b_.Cast(pixels, DType::kF32), b_.Scalar(1 / 255.0f));
    return Chance(0.5) ? b_.Permute(unit, {0, 3, 1, 2}) : unit;
  }
  Value Geglu() {
    const Value x = Chance(0.5) ? LinearOf(OfRank(2, 3), 4 * Int(1, 6), Chance(0.5)) : OfRank(1, 4);
    return ShapeOf(x)[-1] % 2 == 0 ? b_.Geglu(x) : kNone;
  }
  Value Cast() { return b_.Cast(Any(), DType::kF32); }

  Value Residual() {
    const Value x = values_.back(), other = Same(ShapeOf(x));
    if (other.id == kNone.id) return kNone;
    return Chance(0.5) ? b_.Add(x, other) : b_.Add(other, x);
  }

  // Broadcast one way or the other.
  Value Binary() {
    const Value x = OfRank(1, 4);
    const Op op = OneOf<Op>({Op::kAdd, Op::kSub, Op::kMul, Op::kDiv});
    std::vector<int64_t> dims = ShapeOf(x).dims();
    for (int64_t& size : dims) size = Chance(0.5) ? size : 1;
    if (Chance(0.3)) dims.erase(dims.begin());
    const Shape shape(dims);
    Value other = Chance(0.3) ? Literal(shape) : Input(shape, "positive");
    if (Chance(0.1)) other = b_.Scalar(2);
    const bool swapped = op != Op::kDiv && Chance(0.3);
    return b_.Append(
        {.op = op, .operands = {swapped ? other.id : x.id, swapped ? x.id : other.id}});
  }

  Value Concat() {
    const Value x = OfRank(1, 4);
    const int axis = Int(0, RankOf(x) - 1);
    const Value other = Same(ShapeOf(x));
    std::vector<Value> parts = {x};
    if (other.id != kNone.id) parts.push_back(other);
    if (Chance(0.3)) parts.push_back(b_.Slice(x, axis, 0, (ShapeOf(x)[axis] + 1) / 2));
    return Bounded(b_.Concat(parts, axis));
  }
  Value Slice() {
    const Value x = OfRank(1, 4);
    const int axis = Int(0, RankOf(x) - 1), size = static_cast<int>(ShapeOf(x)[axis]);
    const int begin = Int(0, size - 1);
    return b_.Slice(x, axis, begin, Int(begin + 1, size));
  }
  // Joins two dimensions that lie together, or cuts an even one.
  Value Reshape() {
    const Value x = OfRank(1, 4);
    std::vector<int64_t> dims = ShapeOf(x).dims();
    const int d = Int(0, RankOf(x) - 1);
    if (d + 1 < RankOf(x) && Chance(0.6)) {
      dims[d] *= dims[d + 1];
      dims.erase(dims.begin() + d + 1);
    } else if (RankOf(x) < 4 && dims[d] % 2 == 0) {
      dims[d] /= 2;
      dims.insert(dims.begin() + d + 1, 2);
    }
    return b_.Reshape(x, Shape(std::move(dims)));
  }
  Value Permute() {
    const Value x = OfRank(1, 4);
    if (RankOf(x) == 4 && Chance(0.6)) {
      return b_.Permute(x, OneOf<std::vector<int64_t>>({{0, 2, 3, 1}, {0, 3, 1, 2}}));
    }
    std::vector<int64_t> order;
    for (int d = 0; d < RankOf(x); ++d) order.push_back(d);
    std::shuffle(order.begin(), order.end(), random_);
    return b_.Permute(x, order);
  }
  // A transformer over the pixels of an image, as networks write it.
  Value ToTokensAndBack() {
    const Value x = OfRank(4, 4);
    const Shape s = ShapeOf(x);
    const Value tokens = b_.Reshape(b_.Permute(x, {0, 2, 3, 1}), {s[0], s[2] * s[3], s[1]});
    const Value made = b_.Linear(b_.Add(tokens, tokens), Weight({s[1], s[1]}));
    const Value image = b_.Permute(b_.Reshape(made, {s[0], s[2], s[3], s[1]}), {0, 3, 1, 2});
    return Chance(0.7) ? b_.Add(image, x) : image;
  }

  Value Upsample() {
    const Value x = OfRank(4, 4);
    const Layout layout = SomeLayout();
    const int height = layout == Layout::kNchw ? 2 : 1;
    const int64_t h = ShapeOf(x)[height], w = ShapeOf(x)[height + 1];
    const bool twice = Chance(0.7);
    const Value large =
        b_.UpsampleNearest(x, twice ? 2 * h : Int(1, 12), twice ? 2 * w : Int(1, 12), layout);
    if (ShapeOf(large).elements() > 4 * kMaxElements) return kNone;
    if (Chance(0.4)) return Bounded(large);
    const int64_t channels = ShapeOf(x)[layout == Layout::kNchw ? 1 : 3];
    return Bounded(b_.Conv2d(large, Weight({channels, channels, 3, 3}), Weight({channels}),
                             {.padding = {1, 1, 1, 1}, .layout = layout}));
  }

  Value Embedding() {
    const Value ids = Input({rows_, Int(1, 4)}, "ids", DType::kI64);
    const Value table = Weight({Int(3, 7), 2 * Int(1, 6)});
    return b_.Embedding(table, Chance(0.5) ? b_.Increment(ids) : ids);
  }
  Value Select() {
    const Value x = OfRank(3, 3);
    return RankOf(x) == 3 ? b_.Select(x, Input({ShapeOf(x)[0]}, "ids", DType::kI64)) : kNone;
  }
  Value SchedulerStep() {
    const Value output = OfRank(4, 4);
    const Shape s = ShapeOf(output), latents{s[0], s[1] * s[2] * s[3]};
    const Value next = b_.SchedulerStep(Input({s[0], 4, latents[1]}), b_.Reshape(output, latents),
                                        Input(latents), Input({s[0], 27}, "line"));
    return Bounded(b_.Reshape(next, {s[0], 4 * s[1], s[2], s[3]}));
  }
  Value TimestepEmbedding() {
    const graph::TimestepEmbeddingAttributes attributes{2 * Int(2, 6), Chance(0.5),
                                                        Chance(0.5) ? 1.0f : 0.0f};
    return b_.TimestepEmbedding(Input({rows_}, "timesteps"), attributes);
  }

  std::mt19937 random_;
  GraphBuilder b_;
  int64_t rows_ = 1;
  std::vector<Value> values_;  // f32, of which each was an op's result or an input
  int names_ = 0;
};

}  // namespace

graph::Graph RandomGraph(unsigned seed) { return Generator(seed).Run(); }

}  // namespace latentd::testing
