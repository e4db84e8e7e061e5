#include "absl/strings/str_cat.h"
#include "core/graph/target.h"
#include "tests/conformance/fused_node.h"
#include "tests/conformance/op_cases.h"

namespace latentd::testing {
namespace {

using device::DType;
using device::Shape;
using graph::GraphBuilder;
using graph::kNone;
using graph::Op;
using graph::Rate;
using graph::Value;

OpCase RowNorm(const std::string& name, const std::string& input, const Shape& shape) {
  return {absl::StrCat("row_norm_", name), Op::kRowNorm, [=](GraphBuilder& b) {
            const Value x = b.Input(input, DType::kF32, shape, Rate::kStep);
            b.Output("largest", b.RowNorm(x, {}));
            b.Output("length", b.RowNorm(x, {.euclidean = true}));
          }};
}

// Scales of absolute values, times a factor.
OpCase F8Scale(const std::string& name, float factor) {
  return {absl::StrCat("f8_scale_", name), Op::kF8Scale, [=](GraphBuilder& b) {
            const Value x = b.Input("x", DType::kF32, {700}, Rate::kStep);
            b.Output("y", b.F8Scale(b.Mul(b.RowNorm(x, {}), b.Scalar(factor))));
          }};
}

OpCase F8ScaleOfPowersOfTwo() {
  return {"f8_scale_of_what_is_just_448", Op::kF8Scale, [](GraphBuilder& b) {
            const Value x = b.Input("x", DType::kF32, {9}, Rate::kStep);
            const Value exact = b.Constant({448, 449, 447, 0, 1, 1.75f, 1e-38f, 3e38f, 896}, {9});
            b.Output("y", b.F8Scale(b.Add(b.Mul(x, b.Scalar(0)), exact)));
          }};
}

OpCase Quantize(const std::string& name, const std::string& input, float scale) {
  return {absl::StrCat("quantize_", name), Op::kQuantize, [=](GraphBuilder& b) {
            const Value x = b.Input(input, DType::kF32, {3, 5, 701}, Rate::kStep);
            b.Output("y", b.Cast(b.Quantize(x, b.Scalar(scale)), DType::kF32));
          }};
}

// Numbers in between e4m3's, and those in the middle of two.
OpCase QuantizeTies() {
  return {"quantize_ties", Op::kQuantize, [](GraphBuilder& b) {
            const Value x = b.Input("x", DType::kF32, {1}, Rate::kStep);
            std::vector<float> values;
            for (int i = -4096; i <= 4096; ++i) values.push_back(static_cast<float>(i) / 2048);
            const Value steps = b.Constant(values, {8193});
            const Value zero = b.Mul(x, b.Scalar(0));
            b.Output("y", b.Cast(b.Quantize(b.Add(steps, zero), b.Scalar(0x1p-2f)), DType::kF32));
            b.Output("small", b.Cast(b.Quantize(b.Add(steps, zero), b.Scalar(32)), DType::kF32));
          }};
}

struct Operands {
  Value x, weight, scale;
};

constexpr graph::F8Conv2dAttributes kSameSize = {
    1, {1, 1, 1, 1}, graph::Layout::kNhwc, DType::kBF16};

Operands F8Operands(GraphBuilder& b, const Shape& x, int64_t out) {
  const Value scale = b.Scalar(0x1p-8f), weight_scale = b.Scalar(0x1p-9f);
  return {b.Quantize(b.Input("x", DType::kF32, x, Rate::kStep), scale),
          b.Quantize(b.Weight("net/scaled_weight", {out, x[-1]}), weight_scale),
          b.Mul(scale, weight_scale)};
}

// Values of codes, such that two neighbours are within bf16's tolerance, 0.008: rounding
// before decides which of them a value in the middle becomes, and they are up to an eighth apart.
Value Coarse(GraphBuilder& b, Value codes, float scale) {
  const Value value = b.Tanh(b.Mul(b.Cast(codes, DType::kF32), b.Scalar(scale)));
  return b.Cast(b.Mul(value, b.Scalar(0.125f)), DType::kBF16);
}

OpCase F8Linear(const std::string& name, const Shape& x, int64_t out, DType to, bool bias) {
  return {absl::StrCat("f8_linear_", name, bias ? "_bias" : ""), Op::kF8Linear,
          [=](GraphBuilder& b) {
            const Operands read = F8Operands(b, x, out);
            const Value added = bias ? b.Cast(b.Weight("net/bias", {out}), to) : kNone;
            b.Output("y", b.F8Linear(read.x, read.weight, read.scale, added, to));
          }};
}

// The operand that is quantised is f32, so that one rounding decides.
OpCase QuantizedLayerNorm(const Shape& shape) {
  return {absl::StrCat("layer_norm_f8_", shape[-1]), Op::kFused, [=](GraphBuilder& b) {
            const std::vector<Value> operands = {
                b.Input("x", DType::kF32, shape, Rate::kStep), b.Weight("net/gamma", {shape[-1]}),
                b.Weight("net/beta", {shape[-1]}), b.Scalar(0x1p-6f)};
            const Value codes =
                Fuse(b, graph::kLayerNormF8, operands,
                     [](GraphBuilder& body, const std::vector<Value>& in) {
                       return body.Quantize(body.LayerNorm(in[0], in[1], in[2], 1e-5f), in[3]);
                     });
            b.Output("y", b.Cast(codes, DType::kF32));
          }};
}

OpCase QuantizedGeglu(const Shape& shape) {
  return {absl::StrCat("geglu_f8_", shape[-1]), Op::kFused, [=](GraphBuilder& b) {
            const std::vector<Value> operands = {b.Input("x", DType::kF32, shape, Rate::kStep),
                                                 b.Scalar(0x1p-9f)};
            const Value codes = Fuse(b, graph::kGegluF8, operands,
                                     [](GraphBuilder& body, const std::vector<Value>& in) {
                                       return body.Quantize(body.Geglu(in[0]), in[1]);
                                     });
            b.Output("y", b.Cast(codes, DType::kF32));
          }};
}

// Scores of bf16 and their mean, rounded twice by both.
OpCase QuantizedAttention(int64_t heads, int64_t queries, int64_t keys, int64_t size) {
  return {absl::StrCat("attention_f8_", queries, "x", keys, "x", size), Op::kFused,
          [=](GraphBuilder& b) {
            const auto operand = [&](const std::string& name, int64_t tokens) {
              return b.Cast(b.Input(name, DType::kF32, {2, tokens, heads * size}, Rate::kStep),
                            DType::kBF16);
            };
            const std::vector<Value> operands = {operand("x", queries), operand("keys", keys),
                                                 operand("values", keys), b.Scalar(0x1p-7f)};
            const Value codes =
                Fuse(b, graph::kAttentionF8, operands,
                     [=](GraphBuilder& body, const std::vector<Value>& in) {
                       return body.Quantize(
                           body.Attention(in[0], in[1], in[2], {.heads = heads, .scale = 0.125f}),
                           in[3]);
                     });
            b.Output("y", Coarse(b, codes, 0x1p-7f));
          }};
}

// The linear's sums are near 1 and so is what comes of them.
OpCase F8LinearGeglu(const Shape& x, int64_t out, bool bias) {
  return {absl::StrCat("f8_linear_geglu_", x[-1], "x", out, bias ? "_bias" : ""), Op::kFused,
          [=](GraphBuilder& b) {
            const Operands read = F8Operands(b, x, 2 * out);
            std::vector<Value> operands = {read.x, read.weight, read.scale};
            if (bias) operands.push_back(b.Cast(b.Weight("net/bias", {2 * out}), DType::kBF16));
            operands.push_back(b.Scalar(0x1p-6f));
            const Value codes =
                Fuse(b, graph::kF8LinearGeglu, operands,
                     [=](GraphBuilder& body, const std::vector<Value>& in) {
                       return body.Quantize(
                           body.Geglu(body.F8Linear(in[0], in[1], in[2], bias ? in[3] : kNone,
                                                    DType::kBF16)),
                           in.back());
                     });
            b.Output("y", Coarse(b, codes, 0x1p-6f));
          }};
}

OpCase F8LinearEpilogue(bool bias) {
  return {absl::StrCat("f8_linear_epilogue_residual", bias ? "_bias" : ""), Op::kF8Linear,
          [=](GraphBuilder& b) {
            constexpr int64_t kOut = 48;
            const Operands read = F8Operands(b, {2, 9, 64}, kOut);
            const Value residual =
                b.Cast(b.Input("residual", DType::kF32, {2, 9, kOut}, Rate::kStep), DType::kBF16);
            std::vector<Value> operands = {read.x, read.weight, read.scale};
            if (bias) operands.push_back(b.Cast(b.Weight("net/bias", {kOut}), DType::kBF16));
            operands.push_back(residual);
            b.Output("y", Fuse(b, graph::kF8LinearEpilogue, operands,
                               [=](GraphBuilder& body, const std::vector<Value>& in) {
                                 return body.Add(body.F8Linear(in[0], in[1], in[2],
                                                               bias ? in[3] : kNone, DType::kBF16),
                                                 in.back());
                               }));
            b.Output("apart", b.F8Linear(read.x, read.weight, read.scale, kNone, DType::kBF16));
          }};
}

// The sums are near 1.
Operands F8ImageOperands(GraphBuilder& b, const Shape& x, const Shape& weight) {
  const Value scale = b.Scalar(0x1p-8f), weight_scale = b.Scalar(0x1p-9f);
  return {b.Quantize(b.Input("x", DType::kF32, x, Rate::kStep), scale),
          b.Quantize(b.Weight("net/scaled_weight", weight), weight_scale),
          b.Mul(scale, weight_scale)};
}

OpCase F8Conv2d(const std::string& name, const Shape& x, const Shape& weight,
                const graph::F8Conv2dAttributes& attributes, bool bias) {
  return {
      absl::StrCat("f8_conv2d_", name, bias ? "_bias" : ""), Op::kF8Conv2d, [=](GraphBuilder& b) {
        const Operands read = F8ImageOperands(b, x, weight);
        const Value added = bias ? b.Cast(b.Weight("net/bias", {weight[0]}), attributes.to) : kNone;
        b.Output("y", b.F8Conv2d(read.x, read.weight, read.scale, added, attributes));
      }};
}

OpCase F8Conv2dEpilogue(const Shape& x, int64_t out, bool bias) {
  return {absl::StrCat("f8_conv2d_epilogue_residual_", x[3], "x", out, bias ? "_bias" : ""),
          Op::kFused, [=](GraphBuilder& b) {
            const Operands read = F8ImageOperands(b, x, {out, x[3], 3, 3});
            const Value residual =
                b.Cast(b.Input("residual", DType::kF32, {x[0], x[1], x[2], out}, Rate::kStep),
                       DType::kBF16);
            std::vector<Value> operands = {read.x, read.weight, read.scale};
            if (bias) operands.push_back(b.Cast(b.Weight("net/bias", {out}), DType::kBF16));
            operands.push_back(residual);
            b.Output("y", Fuse(b, graph::kF8Conv2dEpilogue, operands,
                               [=](GraphBuilder& body, const std::vector<Value>& in) {
                                 return body.Add(body.F8Conv2d(in[0], in[1], in[2],
                                                               bias ? in[3] : kNone, kSameSize),
                                                 in.back());
                               }));
          }};
}

// Among so many numbers some are in the middle of two codes.
OpCase QuantizedGroupNorm(const Shape& x, int64_t groups, bool adds, graph::Layout layout) {
  return {absl::StrCat("group_norm_silu_f8_", x[1], "x", x[3], adds ? "_add" : ""), Op::kFused,
          [=](GraphBuilder& b) {
            const int axis = layout == graph::Layout::kNchw ? 1 : 3;
            std::vector<Value> operands = {b.Input("x", DType::kF32, x, Rate::kStep)};
            Shape added =
                layout == graph::Layout::kNchw ? Shape{x[0], x[1], 1, 1} : Shape{x[0], 1, 1, x[3]};
            if (adds) operands.push_back(b.Input("added", DType::kF32, added, Rate::kStep));
            operands.push_back(b.Weight("net/gamma", {x[axis]}));
            operands.push_back(b.Weight("net/beta", {x[axis]}));
            operands.push_back(b.Scalar(0x1p-6f));
            const Value codes = Fuse(b, graph::kGroupNormSiluF8, operands,
                                     [=](GraphBuilder& body, const std::vector<Value>& in) {
                                       const Value image = adds ? body.Add(in[0], in[1]) : in[0];
                                       const Value norm = body.GroupNorm(
                                           image, in[in.size() - 3], in[in.size() - 2],
                                           {.groups = groups, .epsilon = 1e-5f, .layout = layout});
                                       return body.Quantize(body.Silu(norm), in.back());
                                     });
            b.Output("y", Coarse(b, codes, 0x1p-6f));
          }};
}

// 3x3 with a stride and padding of 1 by Hopper's own kernel, from 64 channels on; others.
std::vector<OpCase> F8ConvolutionCases() {
  using graph::Layout;
  std::vector<OpCase> cases;
  for (const bool bias : {false, true}) {
    cases.push_back(F8Conv2d("64", {2, 9, 7, 64}, {48, 64, 3, 3}, kSameSize, bias));
    cases.push_back(F8Conv2d("192", {1, 20, 18, 192}, {336, 192, 3, 3}, kSameSize, bias));
    cases.push_back(F8Conv2d("256", {3, 8, 8, 256}, {160, 256, 3, 3}, kSameSize, bias));
    cases.push_back(F8Conv2d("32", {2, 6, 5, 32}, {16, 32, 3, 3}, kSameSize, bias));
    cases.push_back(F8Conv2d("f16", {2, 6, 5, 64}, {16, 64, 3, 3},
                             {1, {1, 1, 1, 1}, Layout::kNhwc, DType::kF16}, bias));
    cases.push_back(F8Conv2d("stride", {1, 9, 7, 64}, {32, 64, 3, 3},
                             {2, {0, 0, 1, 1}, Layout::kNhwc, DType::kBF16}, bias));
    cases.push_back(F8Conv2d("pixel", {2, 5, 7, 64}, {32, 64, 1, 1},
                             {1, {}, Layout::kNhwc, DType::kBF16}, bias));
    cases.push_back(F8Conv2d("nchw", {2, 64, 6, 10}, {32, 64, 3, 3},
                             {1, {1, 1, 1, 1}, Layout::kNchw, DType::kBF16}, bias));
    cases.push_back(F8Conv2dEpilogue({2, 9, 7, 64}, 48, bias));
    cases.push_back(F8Conv2dEpilogue({1, 12, 16, 128}, 320, bias));
    cases.push_back(F8Conv2dEpilogue({1, 4, 6, 16}, 32, bias));
  }
  for (const bool adds : {false, true}) {
    cases.push_back(QuantizedGroupNorm({2, 6, 5, 64}, 32, adds, Layout::kNhwc));
    cases.push_back(QuantizedGroupNorm({2, 16, 16, 640}, 32, adds, Layout::kNhwc));
    cases.push_back(QuantizedGroupNorm({1, 7, 9, 34}, 17, adds, Layout::kNhwc));
    cases.push_back(QuantizedGroupNorm({2, 32, 6, 7}, 8, adds, Layout::kNchw));
  }
  return cases;
}

}  // namespace

std::vector<OpCase> F8Cases() {
  std::vector<OpCase> cases = {
      RowNorm("3x37", "x", {3, 37}),
      RowNorm("of_each", "x", {61}),
      RowNorm("image", "large", {2, 4, 5, 7}),
      RowNorm("long", "x", {1, 70001}),
      F8Scale("ones", 1),
      F8Scale("small", 1e-20f),
      F8Scale("large", 1e30f),
      F8ScaleOfPowersOfTwo(),
      Quantize("fitting", "x", 0x1p-8f),
      Quantize("far_too_small", "x", 64),
      Quantize("too_large", "large", 0x1p-4f),
      Quantize("special", "special", 1),
      QuantizeTies(),
      F8LinearEpilogue(false),
      F8LinearEpilogue(true),
  };
  for (const int64_t size : {37, 640, 1280, 9000})
    cases.push_back(QuantizedLayerNorm({2, 3, size}));
  for (const int64_t size : {2, 38, 768}) cases.push_back(QuantizedGeglu({2, 5, size}));
  cases.push_back(QuantizedAttention(2, 70, 200, 64));
  cases.push_back(QuantizedAttention(3, 33, 77, 40));
  cases.push_back(QuantizedAttention(2, 20, 90, 24));
  cases.push_back(QuantizedAttention(1, 9, 11, 20));
  for (const bool bias : {false, true}) {
    cases.push_back(F8LinearGeglu({2, 9, 64}, 160, bias));
    cases.push_back(F8LinearGeglu({3, 32}, 48, bias));
    cases.push_back(F8LinearGeglu({1, 200, 640}, 112, bias));
    cases.push_back(F8Linear("small", {2, 5, 32}, 16, DType::kBF16, bias));
    cases.push_back(F8Linear("f16", {3, 64}, 48, DType::kF16, bias));
    cases.push_back(F8Linear("long", {1, 77, 640}, 320, DType::kBF16, bias));
  }
  const std::vector<OpCase> convolutions = F8ConvolutionCases();
  cases.insert(cases.end(), convolutions.begin(), convolutions.end());
  return cases;
}

}  // namespace latentd::testing
