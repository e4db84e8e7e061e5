#include "absl/strings/str_cat.h"
#include "core/graph/op_table.h"
#include "tests/conformance/op_cases.h"

namespace latentd::testing {
namespace {

using device::DType;
using device::Shape;
using graph::GraphBuilder;
using graph::Layout;
using graph::Op;
using graph::Rate;
using graph::Value;

OpCase GroupNorm(const std::string& name, const Shape& shape, Layout layout, int64_t groups,
                 const std::string& input = "x") {
  return {absl::StrCat("group_norm_", name, layout == Layout::kNchw ? "_nchw" : "_nhwc"),
          Op::kGroupNorm, [=](GraphBuilder& b) {
            const int64_t channels = shape[layout == Layout::kNchw ? 1 : 3];
            b.Output("y", b.GroupNorm(b.Input(input, DType::kF32, shape, Rate::kStep),
                                      b.Weight("net/gamma", {channels}),
                                      b.Weight("net/beta", {channels}), {groups, 1e-5f, layout}));
          }};
}

OpCase LayerNorm(const Shape& shape) {
  return {absl::StrCat("layer_norm_", shape[-1]), Op::kLayerNorm, [=](GraphBuilder& b) {
            b.Output("y", b.LayerNorm(b.Input("x", DType::kF32, shape, Rate::kStep),
                                      b.Weight("net/gamma", {shape[-1]}),
                                      b.Weight("net/beta", {shape[-1]}), 1e-5f));
          }};
}

using Unary = Value (GraphBuilder::*)(Value);

OpCase OneOperand(const std::string& name, Op op, Unary function, const Shape& shape,
                  const std::string& input) {
  return {name, op, [=](GraphBuilder& b) {
            b.Output("y", (b.*function)(b.Input(input, DType::kF32, shape, Rate::kStep)));
          }};
}

std::vector<OpCase> UnaryCases() {
  struct Row {
    std::string name;
    Op op;
    Unary function;
  };
  std::vector<OpCase> cases;
  for (const Row& row : std::vector<Row>{{"silu", Op::kSilu, &GraphBuilder::Silu},
                                         {"gelu", Op::kGelu, &GraphBuilder::Gelu},
                                         {"quick_gelu", Op::kQuickGelu, &GraphBuilder::QuickGelu},
                                         {"relu", Op::kRelu, &GraphBuilder::Relu},
                                         {"tanh", Op::kTanh, &GraphBuilder::Tanh}}) {
    cases.push_back(OneOperand(row.name, row.op, row.function, {3, 37}, "x"));
    cases.push_back(OneOperand(row.name + "_large", row.op, row.function, {5, 41}, "large"));
    cases.push_back(OneOperand(row.name + "_scalar", row.op, row.function, {}, "x"));
  }
  for (const Shape& shape : std::vector<Shape>{{1}, {4, 1}, {3, 5}, {2, 3, 77}, {2, 1000}}) {
    const std::string size = absl::StrCat("_", shape[-1], "_", shape.rank());
    const auto softmax = &GraphBuilder::Softmax;
    cases.push_back(OneOperand("softmax" + size, Op::kSoftmax, softmax, shape, "x"));
    cases.push_back(OneOperand("softmax_large" + size, Op::kSoftmax, softmax, shape, "large"));
  }
  const auto row_std = &GraphBuilder::RowStd;
  cases.push_back(OneOperand("row_std", Op::kRowStd, row_std, {2, 4, 5, 7}, "x"));
  cases.push_back(OneOperand("row_std_pair", Op::kRowStd, row_std, {3, 2}, "x"));
  cases.push_back(OneOperand("row_std_offset", Op::kRowStd, row_std, {2, 300}, "offset"));
  cases.push_back(OneOperand("row_std_long", Op::kRowStd, row_std, {2, 4, 65, 79}, "offset"));
  const auto geglu = &GraphBuilder::Geglu;
  cases.push_back(OneOperand("geglu", Op::kGeglu, geglu, {2, 5, 38}, "x"));
  cases.push_back(OneOperand("geglu_wide", Op::kGeglu, geglu, {2, 3, 768}, "x"));
  cases.push_back(OneOperand("geglu_large", Op::kGeglu, geglu, {40, 2}, "large"));
  return cases;
}

OpCase Cast(DType from, DType to, int64_t size) {
  return {absl::StrCat("cast_", device::Name(from), "_", device::Name(to), "_", size), Op::kCast,
          [=](GraphBuilder& b) {
            const Value x = b.Input("x", from, {size}, Rate::kStep);
            b.Output("y", b.Cast(x, to));
          }};
}

OpCase Binary(const std::string& name, Op op, const Shape& left, const Shape& right) {
  const std::string full_name = absl::StrCat(graph::RowOf(op).name, "_", name);
  return {full_name, op, [=](GraphBuilder& b) {
            const Value x = b.Input("x", DType::kF32, left, Rate::kStep);
            const Value y = b.Input("positive", DType::kF32, right, Rate::kStep);
            b.Output("y", b.Append({.op = op, .operands = {x.id, y.id}}));
          }};
}

std::vector<OpCase> BinaryCases() {
  std::vector<OpCase> cases;
  for (Op op : {Op::kAdd, Op::kSub, Op::kMul, Op::kDiv}) {
    cases.push_back(Binary("same", op, {3, 37}, {3, 37}));
    cases.push_back(Binary("scalar", op, {3, 37}, {}));
    cases.push_back(Binary("scalar_first", op, {}, {3, 37}));
    cases.push_back(Binary("one_element", op, {2, 3, 5}, {1}));
    cases.push_back(Binary("last_dimension", op, {2, 3, 19}, {19}));
    cases.push_back(Binary("row_channel_nhwc", op, {2, 5, 3, 24}, {2, 1, 1, 24}));
    cases.push_back(Binary("row_channel_nchw", op, {2, 24, 5, 3}, {2, 24, 1, 1}));
    cases.push_back(Binary("per_row", op, {3, 4, 5, 2}, {3, 1, 1, 1}));
    cases.push_back(Binary("both", op, {3, 1, 4}, {1, 5, 1}));
    cases.push_back(Binary("outer_first", op, {2, 1}, {2, 3}));
  }
  cases.push_back({"add_twice_the_same", Op::kAdd, [](GraphBuilder& b) {
                     const Value x = b.Input("x", DType::kF32, {2, 9}, Rate::kStep);
                     b.Output("y", b.Add(x, x));
                   }});
  cases.push_back({"mul_by_a_constant", Op::kMul, [](GraphBuilder& b) {
                     const Value x = b.Input("x", DType::kF32, {2, 3}, Rate::kStep);
                     b.Output("y", b.Mul(b.Mul(x, b.Scalar(0.5f)), b.Constant({1, 2, 3}, {3})));
                   }});
  return cases;
}

void Append(std::vector<OpCase>& cases, std::vector<OpCase> more) {
  for (OpCase& c : more) cases.push_back(std::move(c));
}

}  // namespace

std::vector<OpCase> ElementwiseCases() {
  std::vector<OpCase> cases = UnaryCases();
  Append(cases, BinaryCases());
  for (Layout layout : {Layout::kNchw, Layout::kNhwc}) {
    const auto image = [&](int64_t n, int64_t c, int64_t h, int64_t w) {
      return layout == Layout::kNchw ? Shape{n, c, h, w} : Shape{n, h, w, c};
    };
    cases.push_back(GroupNorm("one_group", image(2, 6, 5, 3), layout, 1));
    cases.push_back(GroupNorm("channels_alone", image(1, 5, 4, 7), layout, 5));
    cases.push_back(GroupNorm("pairs", image(2, 64, 9, 7), layout, 32));
    cases.push_back(GroupNorm("threes", image(2, 96, 8, 8), layout, 32));
    cases.push_back(GroupNorm("tens", image(1, 320, 3, 3), layout, 32));
    cases.push_back(GroupNorm("one_pixel", image(2, 64, 1, 1), layout, 4));
    cases.push_back(GroupNorm("offset", image(1, 32, 33, 31), layout, 8, "offset"));
  }
  for (const Shape& shape : std::vector<Shape>{{4, 1}, {5, 7}, {2, 9, 96}, {3, 160}, {1, 1280}}) {
    cases.push_back(LayerNorm(shape));
  }
  for (int64_t size : {1, 37, 1000}) {
    for (DType from : {DType::kF16, DType::kBF16, DType::kI64, DType::kU8, DType::kF32}) {
      cases.push_back(Cast(from, DType::kF32, size));
    }
  }
  cases.push_back(Cast(DType::kF32, DType::kF16, 37));
  cases.push_back(Cast(DType::kF32, DType::kBF16, 37));
  cases.push_back(Cast(DType::kF16, DType::kBF16, 37));
  // Every code, and more of them than a chunk of the CPU's.
  for (DType from : {DType::kF8E4M3, DType::kF8E5M2}) {
    for (DType to : {DType::kF32, DType::kF16, DType::kBF16}) {
      cases.push_back(Cast(from, to, 256));
      cases.push_back(Cast(from, to, 2500));
    }
  }
  return cases;
}

}  // namespace latentd::testing
