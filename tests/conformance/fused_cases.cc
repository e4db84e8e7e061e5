#include <optional>

#include "absl/strings/str_cat.h"
#include "core/graph/op_table.h"
#include "core/graph/target.h"
#include "tests/conformance/fused_node.h"
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

struct Epilogue {
  std::string name;
  bool bias, residual;
  std::optional<Op> activation;
};

// With every activation of the op table, and with an op that is none.
std::vector<Epilogue> Epilogues() {
  std::vector<Epilogue> epilogues;
  for (const graph::OpRow& row : graph::OpTable()) {
    if (!graph::IsActivation(row.op)) continue;
    epilogues.push_back({absl::StrCat("bias_", row.name), true, false, row.op});
  }
  epilogues.push_back({"residual", false, true, std::nullopt});
  epilogues.push_back({"bias_residual", true, true, std::nullopt});
  epilogues.push_back({"bias_residual_silu", true, true, Op::kSilu});
  epilogues.push_back({"bias_tanh", true, false, Op::kTanh});
  return epilogues;
}

// product [+ residual] [activation] in a body.
Value Finish(GraphBuilder& b, const Epilogue& e, Value product, Value residual) {
  if (e.residual) product = b.Add(product, residual);
  if (!e.activation.has_value()) return product;
  return b.Append({.op = *e.activation, .operands = {product.id}});
}

OpCase ConvEpilogue(const Epilogue& e, Layout layout, int64_t in = 16, int64_t out = 24) {
  const auto build = [=](GraphBuilder& b) {
    const graph::Conv2dAttributes conv = {.padding = {1, 1, 1, 1}, .layout = layout};
    const auto image = [&](int64_t c) {
      return layout == Layout::kNchw ? Shape{2, c, 7, 5} : Shape{2, 7, 5, c};
    };
    std::vector<Value> operands = {b.Input("x", DType::kF32, image(in), Rate::kStep),
                                   b.Weight("net/weight", {out, in, 3, 3})};
    if (e.bias) operands.push_back(b.Weight("net/bias", {out}));
    if (e.residual) operands.push_back(b.Input("residual", DType::kF32, image(out), Rate::kStep));
    const Value y = Fuse(b, graph::kConv2dEpilogue, operands, [&](auto& body, const auto& in) {
      return Finish(body, e, body.Conv2d(in[0], in[1], e.bias ? in[2] : kNone, conv), in.back());
    });
    b.Output("y", y);
  };
  const std::string channels = in == 16 ? "" : absl::StrCat("_", in, "_to_", out);
  return {absl::StrCat("conv2d_epilogue_", e.name, channels,
                       layout == Layout::kNchw ? "_nchw" : "_nhwc"),
          Op::kFused, build};
}

OpCase LinearEpilogue(const Epilogue& e, const Shape& shape) {
  const auto build = [=](GraphBuilder& b) {
    std::vector<int64_t> dims = shape.dims();
    dims.back() = 40;
    std::vector<Value> operands = {b.Input("x", DType::kF32, shape, Rate::kStep),
                                   b.Weight("net/weight", {40, shape[-1]})};
    if (e.bias) operands.push_back(b.Weight("net/bias", {40}));
    if (e.residual) {
      operands.push_back(b.Input("residual", DType::kF32, Shape(dims), Rate::kStep));
    }
    const Value y = Fuse(b, graph::kLinearEpilogue, operands, [&](auto& body, const auto& in) {
      return Finish(body, e, body.Linear(in[0], in[1], e.bias ? in[2] : kNone), in.back());
    });
    b.Output("y", y);
  };
  return {absl::StrCat("linear_epilogue_", e.name, "_rank", shape.rank()), Op::kFused, build};
}

OpCase LinearGeglu(const Shape& shape, int64_t out, bool bias) {
  const auto build = [=](GraphBuilder& b) {
    std::vector<Value> operands = {b.Input("x", DType::kF32, shape, Rate::kStep),
                                   b.Weight("net/weight", {2 * out, shape[-1]})};
    if (bias) operands.push_back(b.Weight("net/bias", {2 * out}));
    b.Output("y", Fuse(b, graph::kLinearGeglu, operands, [&](auto& body, const auto& in) {
               return body.Geglu(body.Linear(in[0], in[1], bias ? in[2] : kNone));
             }));
  };
  return {absl::StrCat("linear_geglu_", out, bias ? "_bias" : ""), Op::kFused, build};
}

// With a low-rank path beside the linear.
OpCase LinearPathGeglu(const std::string& name, const Shape& shape, int64_t out, int64_t rank,
                       bool bias) {
  const auto build = [=](GraphBuilder& b) {
    constexpr int64_t kSlots = 3;
    const auto input = [&](const char* name, const Shape& shape, DType dtype = DType::kF32) {
      return b.Input(name, dtype, shape, Rate::kStep);
    };
    std::vector<Value> operands = {input("x", shape), b.Weight("net/weight", {2 * out, shape[-1]})};
    if (bias) operands.push_back(b.Weight("net/bias", {2 * out}));
    const size_t path = operands.size();
    operands.push_back(input("down", {kSlots, rank, shape[-1]}));
    operands.push_back(input("up", {kSlots, 2 * out, rank}));
    operands.push_back(input("ids", {shape[0]}, DType::kI64));
    operands.push_back(input("scales", {shape[0], rank}));
    b.Output(
        "y", Fuse(b, graph::kLinearGeglu, operands, [&](auto& body, const auto& in) {
          const Value linear = body.Linear(in[0], in[1], bias ? in[2] : kNone);
          return body.Geglu(body.LowRank(
              linear, in[0],
              {.down = in[path], .up = in[path + 1], .slot = in[path + 2], .scale = in[path + 3]}));
        }));
  };
  return {absl::StrCat("linear_geglu_path_", name), Op::kFused, build};
}

// A bias that begins where no word does.
OpCase LinearGegluOfPartOfABias(const Shape& shape, int64_t out) {
  const auto build = [=](GraphBuilder& b) {
    const Value biases = b.Input("biases", DType::kF32, {2 * out + 1}, Rate::kStep);
    const std::vector<Value> operands = {b.Input("x", DType::kF32, shape, Rate::kStep),
                                         b.Weight("net/weight", {2 * out, shape[-1]}),
                                         b.Slice(biases, 0, 1, 2 * out + 1)};
    b.Output("y", Fuse(b, graph::kLinearGeglu, operands, [&](auto& body, const auto& in) {
               return body.Geglu(body.Linear(in[0], in[1], in[2]));
             }));
  };
  return {absl::StrCat("linear_geglu_", out, "_bias_is_a_slice"), Op::kFused, build};
}

// The addend of each channel before a norm. kSlice: rows with gaps between them; kPermuted:
// channels with gaps.
enum class Added { kNothing, kInput, kWeight, kSlice, kPermuted };
constexpr const char* kAddedNames[] = {"", "_added", "_added_weight", "_added_slice",
                                       "_added_permuted"};

// The value, whose channels are in the last dimension or the second one; kNone for kNothing.
Value AddedOf(GraphBuilder& b, Added added, bool nchw, int64_t channels) {
  const auto row = [&](int64_t c) { return nchw ? Shape{2, c, 1, 1} : Shape{2, 1, 1, c}; };
  const auto input = [&](const Shape& shape) {
    return b.Input("row", DType::kF32, shape, Rate::kStep);
  };
  switch (added) {
    case Added::kNothing:
      return kNone;
    case Added::kInput:
      return input(row(channels));
    case Added::kWeight:
      return b.Weight("net/row", row(channels));
    case Added::kSlice:
      return b.Slice(input(row(2 * channels + 3)), nchw ? 1 : 3, 1, channels + 1);
    case Added::kPermuted:
      return nchw ? b.Permute(input({channels, 2, 1, 1}), {1, 0, 2, 3})
                  : b.Permute(input({channels, 1, 1, 2}), {3, 1, 2, 0});
  }
  return kNone;
}

OpCase NormSilu(Added added, bool silu, Layout layout, int64_t channels) {
  const auto build = [=](GraphBuilder& b) {
    const bool nchw = layout == Layout::kNchw;
    const Shape shape = nchw ? Shape{2, channels, 5, 7} : Shape{2, 5, 7, channels};
    std::vector<Value> operands = {b.Input("x", DType::kF32, shape, Rate::kStep),
                                   b.Weight("net/gamma", {channels}),
                                   b.Weight("net/beta", {channels})};
    if (added != Added::kNothing) operands.push_back(AddedOf(b, added, nchw, channels));
    const Value y = Fuse(b, graph::kGroupNormSilu, operands, [&](auto& body, const auto& in) {
      const Value x = in.size() > 3 ? body.Add(in[0], in[3]) : in[0];
      const Value normed = body.GroupNorm(x, in[1], in[2], {8, 1e-5f, layout});
      return silu ? body.Silu(normed) : normed;
    });
    b.Output("y", y);
  };
  const char* what = kAddedNames[static_cast<int>(added)];
  return {absl::StrCat("group_norm_silu", what, silu ? "" : "_without_silu",
                       layout == Layout::kNchw ? "_nchw_" : "_nhwc_", channels),
          Op::kFused, build};
}

struct Upsampling {
  std::string name;
  Shape small;  // NHWC
  int64_t channels = 8;
  bool bias = true;
  Layout layout = Layout::kNhwc;
  int64_t columns = 2;  // to how many times the width
  bool made_weight = false, residual = false;
  std::string weight_name = "net/weight";
};

OpCase UpsampleConv(const Upsampling& u) {
  const auto build = [=](GraphBuilder& b) {
    const bool nhwc = u.layout == Layout::kNhwc;
    const Shape& s = u.small;
    const Shape shape = nhwc ? s : Shape{s[0], s[3], s[1], s[2]};
    const Shape weight = {u.channels, s[3], 3, 3};
    std::vector<Value> operands = {b.Input("x", DType::kF32, shape, Rate::kStep),
                                   u.made_weight ? b.Input("w", DType::kF32, weight, Rate::kStep)
                                                 : b.Weight(u.weight_name, weight)};
    if (u.bias) operands.push_back(b.Weight("net/bias", {u.channels}));
    const Value y = Fuse(b, graph::kUpsampleConv2d, operands, [&](auto& body, const auto& in) {
      const Value x = body.UpsampleNearest(in[0], 2 * s[1], u.columns * s[2], u.layout);
      return body.Conv2d(x, in[1], u.bias ? in[2] : kNone,
                         {.padding = {1, 1, 1, 1}, .layout = u.layout});
    });
    const auto residual = [&] { return b.Input("r", DType::kF32, b.shape(y), Rate::kStep); };
    b.Output("y", u.residual ? b.Add(y, residual()) : y);
  };
  return {absl::StrCat("upsample_conv2d_", u.name), Op::kFused, build};
}

std::vector<OpCase> UpsampleConvs() {
  return {
      UpsampleConv({"whole_vectors", {2, 6, 5, 32}, 64}),
      UpsampleConv({"odd", {3, 5, 7, 13}, 11}),
      UpsampleConv({"without_bias", {1, 8, 8, 16}, 16, false}),
      UpsampleConv({"of_one_pixel", {1, 1, 1, 4}, 4}),
      UpsampleConv({"large", {1, 48, 40, 24}, 40}),
      UpsampleConv({"odd_of_eights", {2, 5, 7, 32}, 24}),
      UpsampleConv({"of_eights_without_bias", {2, 3, 5, 8}, 16, false}),
      UpsampleConv({.name = "residual", .small = {2, 5, 3, 16}, .channels = 24, .residual = true}),
      UpsampleConv({.name = "many_channels",
                    .small = {1, 3, 2, 512},
                    .channels = 512,
                    .weight_name = "net/scaled_weight"}),
      UpsampleConv({"nchw", {2, 4, 6, 8}, 8, true, Layout::kNchw}),
      UpsampleConv({"three_columns", {2, 4, 6, 8}, 8, true, Layout::kNhwc, 3}),
      UpsampleConv({"made_weight", {2, 4, 6, 8}, 8, true, Layout::kNhwc, 2, true})};
}

OpCase Unknown() {
  return {"kind_that_no_backend_knows", Op::kFused, [](GraphBuilder& b) {
            const Value x = b.Input("x", DType::kF32, {3, 11}, Rate::kStep);
            const Value z = b.Input("z", DType::kF32, {11}, Rate::kStep);
            b.Output("y", Fuse(b, "some_pattern", {x, z, x}, [](auto& body, const auto& in) {
                       return body.Softmax(body.Mul(body.Tanh(body.Add(in[0], in[1])), in[2]));
                     }));
          }};
}

// The residual before the product and other liberties that the pattern allows.
OpCase ResidualFirst() {
  return {"linear_epilogue_residual_first", Op::kFused, [](GraphBuilder& b) {
            const Value r = b.Input("r", DType::kF32, {6, 20}, Rate::kStep);
            const Value x = b.Input("x", DType::kF32, {6, 12}, Rate::kStep);
            const Value w = b.Weight("net/weight", {20, 12});
            b.Output("y",
                     Fuse(b, graph::kLinearEpilogue, {r, x, w}, [](auto& body, const auto& in) {
                       return body.Add(in[0], body.Linear(in[1], in[2]));
                     }));
          }};
}

// A known kind around a body that its kernel does not do: a residual of another shape.
OpCase BroadcastResidual() {
  return {"linear_epilogue_broadcast_residual", Op::kFused, [](GraphBuilder& b) {
            const Value r = b.Input("r", DType::kF32, {6, 1}, Rate::kStep);
            const Value x = b.Input("x", DType::kF32, {6, 12}, Rate::kStep);
            const Value w = b.Weight("net/weight", {20, 12});
            b.Output("y",
                     Fuse(b, graph::kLinearEpilogue, {r, x, w}, [](auto& body, const auto& in) {
                       return body.Silu(body.Add(body.Linear(in[1], in[2]), in[0]));
                     }));
          }};
}

// Large enough for backends that then take another way.
OpCase LargeResidual() {
  return {"conv2d_epilogue_large_residual", Op::kFused, [](GraphBuilder& b) {
            const Value x = b.Input("x", DType::kF32, {1, 192, 192, 8}, Rate::kStep);
            const Value w = b.Weight("net/weight", {8, 8, 1, 1});
            b.Output("y", Fuse(b, graph::kConv2dEpilogue, {x, w}, [](auto& body, const auto& in) {
                       const Value y = body.Conv2d(in[0], in[1], kNone, {.layout = Layout::kNhwc});
                       return body.Add(y, in[0]);
                     }));
          }};
}

// The residual is the product's own input and is read again afterwards.
OpCase ResidualIsRead() {
  return {"linear_epilogue_residual_is_read_later", Op::kFused, [](GraphBuilder& b) {
            const Value x = b.Silu(b.Input("x", DType::kF32, {6, 20}, Rate::kStep));
            const Value w = b.Weight("net/weight", {20, 20});
            const Value y =
                Fuse(b, graph::kLinearEpilogue, {x, w, x}, [](auto& body, const auto& in) {
                  return body.Add(body.Linear(in[0], in[1]), in[2]);
                });
            b.Output("y", b.Mul(y, x));
          }};
}

}  // namespace

std::vector<OpCase> FusedCases() {
  std::vector<OpCase> cases = {Unknown(), ResidualFirst(), BroadcastResidual(), ResidualIsRead(),
                               LargeResidual()};
  for (const Epilogue& e : Epilogues()) {
    for (Layout layout : {Layout::kNchw, Layout::kNhwc}) cases.push_back(ConvEpilogue(e, layout));
    if (e.residual) cases.push_back(ConvEpilogue(e, Layout::kNhwc, 4, 32));
    if (e.residual) cases.push_back(ConvEpilogue(e, Layout::kNhwc, 32, 4));
    cases.push_back(LinearEpilogue(e, {9, 17}));
    cases.push_back(LinearEpilogue(e, {2, 9, 32}));
  }
  for (const OpCase& c : UpsampleConvs()) cases.push_back(c);
  for (bool bias : {false, true}) {
    cases.push_back(LinearGeglu({2, 9, 24}, 40, bias));
    cases.push_back(LinearGeglu({7, 37}, 19, bias));
    cases.push_back(LinearGeglu({3, 50, 72}, 96, bias));
  }
  cases.push_back(LinearGegluOfPartOfABias({3, 5, 72}, 96));
  cases.push_back(LinearPathGeglu("words", {3, 70, 64}, 96, 16, true));
  cases.push_back(LinearPathGeglu("many_lines", {2, 130, 32}, 160, 8, false));
  cases.push_back(LinearPathGeglu("many_ranks", {5, 33, 32}, 32, 72, true));
  cases.push_back(LinearPathGeglu("odd_half", {3, 9, 32}, 48, 8, true));
  cases.push_back(LinearPathGeglu("no_words", {3, 7, 37}, 19, 5, true));
  for (Layout layout : {Layout::kNchw, Layout::kNhwc}) {
    for (int64_t channels : {8, 24, 64}) {
      for (Added added : {Added::kNothing, Added::kInput, Added::kWeight}) {
        cases.push_back(NormSilu(added, true, layout, channels));
        cases.push_back(NormSilu(added, false, layout, channels));
      }
      for (Added added : {Added::kSlice, Added::kPermuted}) {
        cases.push_back(NormSilu(added, true, layout, channels));
      }
    }
  }
  return cases;
}

std::vector<OpCase> CasesWithoutF8() {
  std::vector<OpCase> cases;
  for (const auto& some : {ProductCases(), LowRankCases(), ElementwiseCases(), MovementCases(),
                           SamplingCases(), FusedCases()}) {
    cases.insert(cases.end(), some.begin(), some.end());
  }
  return cases;
}

std::vector<OpCase> AllOpCases() {
  std::vector<OpCase> cases = CasesWithoutF8();
  for (OpCase& c : F8Cases()) cases.push_back(std::move(c));
  return cases;
}

}  // namespace latentd::testing
