#include "absl/strings/str_cat.h"
#include "absl/strings/str_join.h"
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

OpCase Concat(const std::string& name, const std::vector<Shape>& parts, int64_t axis) {
  return {absl::StrCat("concat_", name), Op::kConcat, [=](GraphBuilder& b) {
            std::vector<Value> values;
            values.reserve(parts.size());
            for (const Shape& shape : parts) {
              values.push_back(
                  b.Input(absl::StrCat("x", values.size()), DType::kF32, shape, Rate::kStep));
            }
            b.Output("y", b.Concat(values, axis));
          }};
}

OpCase Slice(const Shape& shape, int64_t axis, int64_t begin, int64_t end) {
  return {
      absl::StrCat("slice_", axis, "_", begin, "_", end, "_of_", absl::StrJoin(shape.dims(), "x")),
      Op::kSlice, [=](GraphBuilder& b) {
        const Value x = b.Input("x", DType::kF32, shape, Rate::kStep);
        b.Output("y", b.Slice(x, axis, begin, end));
      }};
}

OpCase Permute(const Shape& shape, const std::vector<int64_t>& order) {
  return {
      absl::StrCat("permute_", absl::StrJoin(order, ""), "_of_", absl::StrJoin(shape.dims(), "x")),
      Op::kPermute, [=](GraphBuilder& b) {
        b.Output("y", b.Permute(b.Input("x", DType::kF32, shape, Rate::kStep), order));
      }};
}

OpCase Upsample(const Shape& nchw, int64_t height, int64_t width, Layout layout) {
  return {absl::StrCat("upsample_", nchw[2], "x", nchw[3], "_to_", height, "x", width,
                       layout == Layout::kNchw ? "_nchw" : "_nhwc"),
          Op::kUpsampleNearest, [=](GraphBuilder& b) {
            const Shape shape =
                layout == Layout::kNchw ? nchw : Shape{nchw[0], nchw[2], nchw[3], nchw[1]};
            const Value x = b.Input("x", DType::kF32, shape, Rate::kStep);
            b.Output("y", b.UpsampleNearest(x, height, width, layout));
          }};
}

OpCase Timesteps(const std::string& name, graph::TimestepEmbeddingAttributes attributes) {
  return {absl::StrCat("timestep_embedding_", name), Op::kTimestepEmbedding, [=](GraphBuilder& b) {
            const Value t = b.Input("timesteps", DType::kF32, {3}, Rate::kStep);
            b.Output("y", b.TimestepEmbedding(t, attributes));
          }};
}

std::vector<OpCase> ViewCases() {
  return {
      {"reshape_of_an_input", Op::kReshape,
       [](GraphBuilder& b) {
         b.Output("y", b.Reshape(b.Input("x", DType::kF32, {2, 6, 5}, Rate::kStep), {3, 20}));
       }},
      {"reshape_between_ops", Op::kReshape,
       [](GraphBuilder& b) {
         const Value x = b.Silu(b.Input("x", DType::kF32, {2, 6, 5}, Rate::kStep));
         b.Output("y", b.Relu(b.Reshape(x, {4, 15})));
       }},
      {"reshape_to_scalar", Op::kReshape,
       [](GraphBuilder& b) {
         b.Output("y", b.Reshape(b.Input("x", DType::kF32, {1, 1}, Rate::kStep), {}));
       }},
      {"slice_of_a_reshape", Op::kSlice,
       [](GraphBuilder& b) {
         const Value x = b.Silu(b.Input("x", DType::kF32, {4, 6}, Rate::kStep));
         b.Output("y", b.Relu(b.Slice(b.Reshape(x, {2, 12}), 0, 1, 2)));
       }},
      {"slices_added", Op::kSlice,
       [](GraphBuilder& b) {
         const Value x = b.Relu(b.Input("x", DType::kF32, {2, 3, 8}, Rate::kStep));
         b.Output("y", b.Add(b.Slice(x, 2, 0, 4), b.Slice(x, 2, 4, 8)));
       }},
      {"slice_kept_longer_than_its_source", Op::kSlice,
       [](GraphBuilder& b) {
         const Value x = b.Relu(b.Input("x", DType::kF32, {4, 50}, Rate::kStep));
         const Value kept = b.Slice(x, 0, 2, 4);
         Value y = b.Input("y", DType::kF32, {2, 50}, Rate::kStep);
         for (int i = 0; i < 4; ++i) y = b.Silu(b.Add(y, y));
         b.Output("y", b.Add(kept, y));
       }},
      {"slice_of_ids", Op::kSlice,
       [](GraphBuilder& b) {
         const Value ids = b.Input("ids", DType::kI64, {3, 4}, Rate::kStep);
         b.Output("y", b.Embedding(b.Weight("net/table", {5, 6}), b.Slice(ids, 1, 1, 3)));
       }},
  };
}

std::vector<OpCase> ConcatCases() {
  return {
      {"concat_of_one_value_twice", Op::kConcat,
       [](GraphBuilder& b) {
         const Value x = b.Silu(b.Input("x", DType::kF32, {2, 5}, Rate::kStep));
         b.Output("y", b.Concat({x, x}, 1));
       }},
      {"concat_part_used_elsewhere", Op::kConcat,
       [](GraphBuilder& b) {
         const Value x = b.Silu(b.Input("x", DType::kF32, {2, 5}, Rate::kStep));
         const Value joined = b.Concat({x, b.Relu(x)}, 0);
         b.Output("y", b.Add(joined, b.Concat({b.Tanh(x), x}, 0)));
       }},
      {"concat_of_slices_with_another_shape", Op::kConcat,
       [](GraphBuilder& b) {
         const Value x = b.Silu(b.Input("x", DType::kF32, {2, 3, 8}, Rate::kStep));
         const Value heads = b.Permute(b.Reshape(b.Slice(x, 2, 2, 6), {2, 3, 2, 2}), {0, 2, 1, 3});
         const Value kept = b.Reshape(b.Slice(x, 2, 5, 8), {2, 9});
         b.Output("y", b.Concat({b.Reshape(heads, {2, 12}), b.Reshape(x, {2, 24}), kept}, 1));
         b.Output("kept", kept);
       }},
      // As a request's graph ends: backends may copy slices of whole words together.
      {"concat_of_slices_of_a_product", Op::kConcat,
       [](GraphBuilder& b) {
         const Value x = b.Input("x", DType::kF32, {1, 3, 16}, Rate::kStep);
         const Value merged = b.Linear(x, b.Weight("net/weight", {72, 16}));
         std::vector<Value> parts;
         for (int64_t begin : {8, 0, 24, 16, 40}) {
           parts.push_back(b.Reshape(b.Slice(merged, 2, begin, begin + 16), {1, 48}));
         }
         b.Output("y", b.Concat(parts, 1));
       }},
      {"concat_where_a_part_has_no_strides_of_the_other_shape", Op::kConcat,
       [](GraphBuilder& b) {
         const Value x = b.Silu(b.Input("x", DType::kF32, {2, 3, 4}, Rate::kStep));
         const Value flat = b.Reshape(b.Permute(x, {1, 0, 2}), {4, 6});
         b.Output("y", b.Concat({flat, b.Input("z", DType::kF32, {4, 3}, Rate::kStep)}, 1));
       }},
  };
}

std::vector<OpCase> LeafCases() {
  return {
      {"constant_alone", Op::kConstant,
       [](GraphBuilder& b) {
         b.Output("y", b.Constant({1, 2, 3, 4, 5, 6}, {2, 3}));
       }},
      {"constant_added", Op::kConstant,
       [](GraphBuilder& b) {
         const Value x = b.Input("x", DType::kF32, {2, 3}, Rate::kStep);
         b.Output("y", b.Add(x, b.Constant({0.25f, -1, 1e6f}, {3})));
       }},
      {"input_as_output", Op::kInput,
       [](GraphBuilder& b) {
         b.Output("y", b.Input("x", DType::kF32, {2, 3}, Rate::kStep));
       }},
      {"input_unused", Op::kInput,
       [](GraphBuilder& b) {
         b.Input("unused", DType::kF32, {7}, Rate::kStep);
         b.Output("y", b.Relu(b.Input("x", DType::kF32, {2, 3}, Rate::kStep)));
       }},
      {"two_outputs_of_one_value", Op::kInput,
       [](GraphBuilder& b) {
         const Value y = b.Silu(b.Input("x", DType::kF32, {2, 3}, Rate::kStep));
         b.Output("y", y);
         b.Output("z", y);
         b.Output("w", b.Relu(y));
         b.Output("v", b.Reshape(y, {6}));
       }},
      {"weight_as_output", Op::kWeight,
       [](GraphBuilder& b) {
         b.Output("y", b.Weight("net/weight", {3, 4}));
       }},
      {"weight_computed_with", Op::kWeight,
       [](GraphBuilder& b) {
         const Value x = b.Input("x", DType::kF32, {2, 8}, Rate::kStep);
         const Value both = b.Concat({b.Weight("net/a", {3, 8}), b.Weight("net/b", {4, 8})}, 0);
         b.Output("y", b.Linear(x, both));
       }},
  };
}

std::vector<OpCase> EmbeddingCases() {
  std::vector<OpCase> cases;
  for (const Shape& ids : std::vector<Shape>{{1}, {2, 7}, {3, 2, 2}}) {
    cases.push_back(
        {absl::StrCat("embedding_of_rank_", ids.rank()), Op::kEmbedding, [=](GraphBuilder& b) {
           const Value table = b.Weight("net/table", {9, 13});
           const Value i = b.Input("ids", DType::kI64, ids, Rate::kRequest);
           b.Output("y", b.Embedding(table, i));
         }});
  }
  cases.push_back({"embedding_of_ids_outside", Op::kEmbedding, [](GraphBuilder& b) {
                     const Value ids = b.Input("wild", DType::kI64, {40}, Rate::kRequest);
                     b.Output("y", b.Embedding(b.Weight("net/table", {5, 3}), ids));
                   }});
  return cases;
}

void Append(std::vector<OpCase>& cases, std::vector<OpCase> more) {
  for (OpCase& c : more) cases.push_back(std::move(c));
}

}  // namespace

std::vector<OpCase> MovementCases() {
  std::vector<OpCase> cases = ViewCases();
  Append(cases, ConcatCases());
  Append(cases, LeafCases());
  Append(cases, EmbeddingCases());
  cases.push_back(Concat("rows", {{2, 3, 5}, {1, 3, 5}}, 0));
  cases.push_back(Concat("middle", {{2, 3, 5}, {2, 1, 5}, {2, 4, 5}}, 1));
  cases.push_back(Concat("channels_nhwc", {{2, 3, 4, 24}, {2, 3, 4, 40}}, 3));
  cases.push_back(Concat("single", {{2, 3}}, 1));
  cases.push_back(Slice({4, 6}, 0, 1, 3));
  cases.push_back(Slice({4, 6}, 1, 2, 5));
  cases.push_back(Slice({2, 3, 4, 5}, 2, 1, 2));
  cases.push_back(Slice({1, 9, 8}, 1, 3, 9));
  cases.push_back(Permute({3, 5}, {1, 0}));
  cases.push_back(Permute({2, 3, 4, 5}, {0, 2, 3, 1}));
  cases.push_back(Permute({2, 33, 17, 40}, {0, 3, 1, 2}));
  cases.push_back(Permute({2, 4, 3, 8}, {0, 2, 1, 3}));
  cases.push_back(Permute({2, 3, 4}, {2, 1, 0}));
  cases.push_back(Permute({2, 3, 4}, {0, 1, 2}));
  for (Layout layout : {Layout::kNchw, Layout::kNhwc}) {
    cases.push_back(Upsample({2, 5, 3, 4}, 6, 8, layout));
    cases.push_back(Upsample({1, 3, 4, 5}, 7, 9, layout));
    cases.push_back(Upsample({1, 3, 4, 5}, 4, 5, layout));
    cases.push_back(Upsample({1, 20, 3, 3}, 5, 4, layout));
    cases.push_back(Upsample({1, 2, 6, 6}, 3, 2, layout));
  }
  cases.push_back(Timesteps("cos_first", {320, true, 0}));
  cases.push_back(Timesteps("sin_first", {64, false, 1}));
  cases.push_back(Timesteps("odd", {7, true, 0}));
  return cases;
}

}  // namespace latentd::testing
