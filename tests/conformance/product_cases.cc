#include <cmath>

#include "absl/strings/str_cat.h"
#include "tests/conformance/op_cases.h"

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

enum class Bias { kNo, kYes };

struct ConvCase {
  std::string name;
  int64_t rows, in, out, height, width, kernel;
  graph::Conv2dAttributes attributes;
};

OpCase Conv(const ConvCase& c, Layout layout, Bias bias) {
  const auto build = [=](GraphBuilder& b) {
    graph::Conv2dAttributes attributes = c.attributes;
    attributes.layout = layout;
    const Shape shape = layout == Layout::kNchw ? Shape{c.rows, c.in, c.height, c.width}
                                                : Shape{c.rows, c.height, c.width, c.in};
    const Value x = b.Input("x", DType::kF32, shape, Rate::kStep);
    const Value weight = b.Weight("net/weight", {c.out, c.in, c.kernel, c.kernel});
    const Value added = bias == Bias::kYes ? b.Weight("net/bias", {c.out}) : kNone;
    b.Output("y", b.Conv2d(x, weight, added, attributes));
  };
  return {absl::StrCat("conv2d_", c.name, layout == Layout::kNchw ? "_nchw" : "_nhwc",
                       bias == Bias::kYes ? "_bias" : ""),
          Op::kConv2d, build};
}

std::vector<OpCase> ConvCases() {
  const std::vector<ConvCase> cases = {
      {"1x1", 2, 3, 5, 7, 5, 1, {}},
      {"1x1_wide", 1, 64, 96, 6, 6, 1, {}},
      {"3x3", 2, 3, 5, 7, 5, 3, {.padding = {1, 1, 1, 1}}},
      {"3x3_wide", 2, 32, 48, 9, 11, 3, {.padding = {1, 1, 1, 1}}},
      {"3x3_into_4", 2, 64, 4, 8, 8, 3, {.padding = {1, 1, 1, 1}}},
      {"3x3_from_4", 2, 4, 64, 8, 8, 3, {.padding = {1, 1, 1, 1}}},
      // Near what kernels for few channels take.
      {"3x3_into_4_tiles", 1, 32, 4, 17, 18, 3, {.padding = {1, 1, 1, 1}}},
      {"3x3_into_4_valid", 1, 64, 4, 6, 7, 3, {}},
      {"3x3_into_4_stride2", 1, 64, 4, 8, 7, 3, {.stride = 2, .padding = {1, 1, 1, 1}}},
      {"3x3_into_9", 1, 32, 9, 5, 6, 3, {.padding = {1, 1, 1, 1}}},
      {"3x3_from_4_valid", 1, 4, 64, 6, 7, 3, {}},
      {"3x3_from_4_stride2", 1, 4, 64, 9, 8, 3, {.stride = 2, .padding = {1, 1, 1, 1}}},
      {"3x3_from_4_asymmetric", 1, 4, 64, 6, 5, 3, {.padding = {0, 0, 1, 1}}},
      {"5x5_from_4", 1, 4, 64, 9, 9, 5, {.padding = {2, 2, 2, 2}}},
      {"3x3_valid", 1, 5, 3, 4, 6, 3, {}},
      {"3x3_stride2", 2, 16, 24, 9, 8, 3, {.stride = 2, .padding = {1, 1, 1, 1}}},
      {"3x3_stride2_asymmetric", 1, 16, 16, 8, 8, 3, {.stride = 2, .padding = {0, 0, 1, 1}}},
      {"3x3_lopsided", 1, 3, 2, 5, 4, 3, {.padding = {2, 0, 1, 1}}},
      {"5x5", 1, 2, 3, 9, 9, 5, {.padding = {2, 2, 2, 2}}},
      {"1x1_pixel", 1, 8, 8, 1, 1, 1, {}},
      {"odd_channels", 1, 37, 19, 5, 5, 3, {.padding = {1, 1, 1, 1}}},
  };
  std::vector<OpCase> result;
  for (const ConvCase& c : cases) {
    for (Layout layout : {Layout::kNchw, Layout::kNhwc}) {
      for (Bias bias : {Bias::kNo, Bias::kYes}) result.push_back(Conv(c, layout, bias));
    }
  }
  return result;
}

OpCase Linear(const std::string& name, const Shape& x_shape, int64_t out, Bias bias) {
  const auto build = [=](GraphBuilder& b) {
    const Value x = b.Input("x", DType::kF32, x_shape, Rate::kStep);
    const Value weight = b.Weight("net/weight", {out, x_shape[-1]});
    b.Output("y", b.Linear(x, weight, bias == Bias::kYes ? b.Weight("net/bias", {out}) : kNone));
  };
  return {absl::StrCat("linear_", name, bias == Bias::kYes ? "_bias" : ""), Op::kLinear, build};
}

OpCase Matmul(const std::string& name, const Shape& a_shape, const Shape& b_shape) {
  return {absl::StrCat("matmul_", name), Op::kMatmul, [=](GraphBuilder& b) {
            const Value left = b.Input("a", DType::kF32, a_shape, Rate::kStep);
            const Value right = b.Input("b", DType::kF32, b_shape, Rate::kStep);
            b.Output("y", b.Matmul(left, right));
          }};
}

// The two operands of a product computed at the run, as the weight of nothing.
OpCase LinearOfInputs() {
  return {"linear_weight_is_an_input", Op::kLinear, [](GraphBuilder& b) {
            const Value x = b.Input("x", DType::kF32, {3, 10}, Rate::kStep);
            const Value weight = b.Input("weight", DType::kF32, {6, 10}, Rate::kStep);
            const Value bias = b.Input("bias", DType::kF32, {6}, Rate::kStep);
            b.Output("y", b.Linear(x, weight, bias));
          }};
}

// Sums of the checkpoint rate, as the pass upsample_bias leaves them.
OpCase ConvOfMadeBias() {
  return {"conv2d_bias_is_made", Op::kConv2d, [](GraphBuilder& b) {
            const Value x = b.Input("x", DType::kF32, {2, 5, 4, 8}, Rate::kStep);
            const Value weight = b.Weight("net/scaled_weight", {16, 8, 1, 1});
            const Value product = b.Linear(b.Weight("net/moved", {8}), b.Reshape(weight, {16, 8}),
                                           b.Weight("net/bias", {16}));
            const Value bias = b.Add(product, b.Weight("net/more", {16}));
            b.Output("y", b.Conv2d(x, weight, bias, {.layout = Layout::kNhwc}));
          }};
}

OpCase ConvOfInputs(int64_t in, int64_t out) {
  const auto build = [=](GraphBuilder& b) {
    const Value x = b.Input("x", DType::kF32, {1, 5, 6, in}, Rate::kStep);
    const Value weight = b.Input("weight", DType::kF32, {out, in, 3, 3}, Rate::kStep);
    b.Output("y", b.Conv2d(x, weight, kNone, {.padding = {1, 1, 1, 1}, .layout = Layout::kNhwc}));
  };
  return {absl::StrCat("conv2d_weight_is_an_input_", in, "_to_", out), Op::kConv2d, build};
}

// A bias that begins where no word does, as the others of these do.
OpCase ConvOfPartOfABias(int64_t in, int64_t out, int64_t kernel) {
  const auto build = [=](GraphBuilder& b) {
    const Value x = b.Input("x", DType::kF32, {1, 5, 6, in}, Rate::kStep);
    const Value biases = b.Input("biases", DType::kF32, {out + 1}, Rate::kStep);
    const int64_t around = kernel / 2;
    b.Output("y", b.Conv2d(x, b.Weight("net/weight", {out, in, kernel, kernel}),
                           b.Slice(biases, 0, 1, out + 1),
                           {.padding = {around, around, around, around}, .layout = Layout::kNhwc}));
  };
  return {absl::StrCat("conv2d_bias_is_a_slice_", in, "_to_", out, kernel == 3 ? "" : "_1x1"),
          Op::kConv2d, build};
}

OpCase ConvOfPartOfABiasAndInputs(int64_t in, int64_t out) {
  const auto build = [=](GraphBuilder& b) {
    const Value x = b.Input("x", DType::kF32, {1, 5, 6, in}, Rate::kStep);
    const Value weight = b.Input("weight", DType::kF32, {out, in, 3, 3}, Rate::kStep);
    const Value biases = b.Input("biases", DType::kF32, {out + 1}, Rate::kStep);
    b.Output("y", b.Conv2d(x, weight, b.Slice(biases, 0, 1, out + 1),
                           {.padding = {1, 1, 1, 1}, .layout = Layout::kNhwc}));
  };
  return {absl::StrCat("conv2d_bias_is_a_slice_beside_inputs_", in, "_to_", out), Op::kConv2d,
          build};
}

OpCase LinearOfPartOfABias(int64_t in, int64_t out) {
  const auto build = [=](GraphBuilder& b) {
    const Value x = b.Input("x", DType::kF32, {9, in}, Rate::kStep);
    const Value biases = b.Input("biases", DType::kF32, {out + 1}, Rate::kStep);
    b.Output("y", b.Linear(x, b.Weight("net/weight", {out, in}), b.Slice(biases, 0, 1, out + 1)));
  };
  return {absl::StrCat("linear_bias_is_a_slice_", in, "_to_", out), Op::kLinear, build};
}

// Every operand of a product.
OpCase LinearOfParts(int64_t in, int64_t out) {
  const auto part = [](GraphBuilder& b, const char* name, int64_t lines, int64_t line) {
    const Value all = b.Input(name, DType::kF32, {lines * line + 1}, Rate::kStep);
    return b.Reshape(b.Slice(all, 0, 1, lines * line + 1), {lines, line});
  };
  const auto build = [=](GraphBuilder& b) {
    const Value x = part(b, "x", 7, in), weight = part(b, "weight", out, in);
    b.Output("y", b.Linear(x, weight, b.Reshape(part(b, "bias", 1, out), {out})));
  };
  return {absl::StrCat("linear_operands_are_slices_", in, "_to_", out), Op::kLinear, build};
}

struct AttentionCase {
  std::string name;
  int64_t rows, queries, keys, heads, size;
  bool causal = false;
  float scale = 0.3f;
};

OpCase Attention(const AttentionCase& c) {
  return {absl::StrCat("attention_", c.name), Op::kAttention, [=](GraphBuilder& b) {
            const int64_t channels = c.heads * c.size;
            const Value q = b.Input("q", DType::kF32, {c.rows, c.queries, channels}, Rate::kStep);
            const Value k = b.Input("k", DType::kF32, {c.rows, c.keys, channels}, Rate::kStep);
            const Value v = b.Input("v", DType::kF32, {c.rows, c.keys, channels}, Rate::kStep);
            b.Output("y", b.Attention(q, k, v, {c.heads, c.scale, c.causal}));
          }};
}

// Queries, keys and values as parts of one merged projection.
OpCase MergedAttention(int64_t tokens, int64_t heads, int64_t size) {
  return {absl::StrCat("attention_of_slices_", size), Op::kAttention, [=](GraphBuilder& b) {
            const int64_t c = heads * size;
            const Value qkv = b.Input("qkv", DType::kF32, {2, tokens, 3 * c}, Rate::kStep);
            b.Output("y", b.Attention(b.Slice(qkv, 2, 0, c), b.Slice(qkv, 2, c, 2 * c),
                                      b.Slice(qkv, 2, 2 * c, 3 * c), {heads, 0.2f, false}));
          }};
}

// Attention of Stable Diffusion 1.5, whose heads are of 40, 80 and 160: to the image itself, of
// which there are whole tiles or not, and to a prompt. Heads are fewer, but never one where a
// kernel could take the next head's elements for padding.
std::vector<AttentionCase> AttentionOfSd15() {
  std::vector<AttentionCase> cases;
  const auto add = [&](int64_t size, int64_t rows, int64_t queries, int64_t keys) {
    const float scale = 1 / std::sqrt(static_cast<float>(size));
    cases.push_back({absl::StrCat("sd15_", size, "_", rows, "x", queries, "_over_", keys), rows,
                     queries, keys, 2, size, false, scale});
  };
  for (const auto& [size, image] :
       {std::pair(40, 4096), std::pair(80, 1024), std::pair(160, 256)}) {
    add(size, 1, 64, image);
    add(size, 2, 65, image - 1);
    add(size, 1, image, 77);
    add(size, 2, 63, 77);
    add(size, 2, 63, 63);
    add(size, 1, 64, 64);
  }
  cases.push_back({"sd15_many_heads", 2, 130, 130, 8, 40, false, 0.158f});
  cases.push_back({"sd15_text", 2, 77, 77, 12, 64, true, 0.125f});
  cases.push_back({"sd15_autoencoder", 1, 100, 100, 1, 512, false, 0.044f});
  return cases;
}

}  // namespace

std::vector<OpCase> ProductCases() {
  std::vector<OpCase> cases = ConvCases();
  for (Bias bias : {Bias::kNo, Bias::kYes}) {
    cases.push_back(Linear("vector", {7}, 5, bias));
    cases.push_back(Linear("matrix", {3, 7}, 5, bias));
    cases.push_back(Linear("one_row", {1, 64}, 256, bias));
    cases.push_back(Linear("tokens", {2, 9, 37}, 19, bias));
    cases.push_back(Linear("rank4", {2, 3, 4, 16}, 32, bias));
    cases.push_back(Linear("wide", {2, 64, 96}, 768, bias));
    cases.push_back(Linear("to_one", {4, 8}, 1, bias));
  }
  cases.push_back(LinearOfInputs());
  for (const auto& [in, out] : {std::pair(3, 4), std::pair(4, 64), std::pair(64, 4)}) {
    cases.push_back(ConvOfInputs(in, out));
    cases.push_back(ConvOfPartOfABias(in, out, 3));
    cases.push_back(ConvOfPartOfABias(in, out, 1));
    cases.push_back(ConvOfPartOfABiasAndInputs(in, out));
  }
  for (const auto& [in, out] : {std::pair(64, 32), std::pair(37, 19)}) {
    cases.push_back(LinearOfPartOfABias(in, out));
    cases.push_back(LinearOfParts(in, out));
  }
  cases.push_back(ConvOfMadeBias());
  cases.push_back(Matmul("rank2", {3, 5}, {5, 4}));
  cases.push_back(Matmul("guidance", {2, 2}, {2, 100}));
  cases.push_back(Matmul("rank3", {2, 3, 7}, {2, 7, 5}));
  cases.push_back(Matmul("rank4", {2, 3, 4, 6}, {2, 3, 6, 17}));
  cases.push_back(Matmul("dot", {1, 9}, {9, 1}));
  for (const AttentionCase& c : std::vector<AttentionCase>{
           {"one_head", 1, 5, 5, 1, 8},
           {"heads", 2, 17, 17, 3, 32},
           {"cross", 2, 64, 77, 4, 32},
           {"one_query", 1, 1, 77, 2, 16},
           {"one_key", 2, 7, 1, 2, 16},
           {"causal", 1, 77, 77, 2, 32, true},
           {"causal_odd", 2, 9, 9, 1, 5, true},
           {"odd_size", 1, 19, 23, 2, 37},
           {"size_40", 1, 33, 33, 2, 40},
           {"size_64", 1, 30, 70, 1, 64},
           {"prompt", 2, 300, 77, 3, 64},
           {"two_prompts", 1, 70, 154, 2, 64},
           {"prompt_causal", 2, 77, 77, 2, 64, true},
           {"prompt_negative_scale", 1, 20, 9, 1, 64, false, -0.5f},
           {"size_64_many_keys", 1, 20, 200, 2, 64},
           {"size_64_many_tokens", 2, 300, 300, 3, 64},
           {"size_64_many_keys_causal", 1, 200, 200, 1, 64, true},
           {"size_64_many_keys_negative_scale", 1, 20, 200, 1, 64, false, -0.5f},
           {"size_160", 1, 11, 77, 1, 160},
           {"many_keys", 1, 9, 1100, 1, 32},
           {"sharp", 1, 20, 40, 1, 32, false, 30.0f},
           {"negative_scale", 1, 4, 6, 1, 8, false, -1.0f},
       }) {
    cases.push_back(Attention(c));
  }
  for (const AttentionCase& c : AttentionOfSd15()) cases.push_back(Attention(c));
  for (OpCase& c : OverFramesCases()) cases.push_back(std::move(c));
  cases.push_back(MergedAttention(9, 3, 8));
  for (const int64_t size : {40, 80, 160}) cases.push_back(MergedAttention(66, 3, size));
  return cases;
}

}  // namespace latentd::testing
