// Graphs over stored tensors, as text; tests/core/backends/source_weights_test.cc computes them.
#include "core/weights/source.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <string>
#include <utility>

#include "core/graph/graph_builder.h"
#include "core/graph/text.h"
#include "core/graph/verifier.h"
#include "tests/support/status_matchers.h"
#include "tests/support/stored_weight.h"

namespace latentd::weights {
namespace {

using device::DType;
using device::Shape;
using graph::Graph;
using graph::GraphBuilder;
using graph::Value;
using ::testing::HasSubstr;
using testing::StatusIs;
using testing::StoredWeight;

Source Stored(DType dtype, Shape shape) {
  return Source::Of({device::Buffer::Allocate(dtype, std::move(shape)), "model.safetensors"});
}

Graph Built(GraphBuilder& b, Value result) {
  b.Output("result", result);
  return std::move(b).Build().value();
}

// As a backend that computes in `dtype` reads a network's weight.
Graph WeightIn(DType dtype) {
  GraphBuilder b;
  const Value weight = b.Weight("unet/a", {4});
  b.Output("result", dtype == DType::kF32 ? weight : b.Cast(weight, dtype));
  return std::move(b).Build().value();
}

std::string TextOf(const absl::StatusOr<Source>& source) {
  EXPECT_OK(source);
  if (!source.ok()) return "";
  EXPECT_OK(graph::Verify(*source->make));
  return graph::ToText(*source->make);
}

TEST(ComposeTest, ReadsATensorInTheDTypeThatItIsStoredInAsItIs) {
  for (const DType dtype : {DType::kF32, DType::kF16, DType::kBF16}) {
    const std::string name(device::Name(dtype));
    EXPECT_EQ(TextOf(Compose(WeightIn(dtype), {Stored(dtype, {4})})),
              "latentd graph 1\n%0 = weight \"w0\" : " + name + "[4]\noutput \"result\" = %0\n");
  }
}

TEST(ComposeTest, CastsATensorOfAnotherDTypeOnce) {
  for (const DType stored :
       {DType::kF32, DType::kF16, DType::kBF16, DType::kI64, DType::kF8E4M3, DType::kF8E5M2}) {
    for (const DType wanted : {DType::kF32, DType::kF16, DType::kBF16}) {
      if (stored == wanted) continue;
      const bool is_exact = stored != DType::kI64 || wanted == DType::kF32;
      const std::string from(device::Name(stored)), to(device::Name(wanted));
      const std::string text = TextOf(Compose(WeightIn(wanted), {Stored(stored, {4})}));
      EXPECT_EQ(text, is_exact ? "latentd graph 1\n%0 = weight \"w0\" : " + from +
                                     "[4]\n%1 = cast(%0) to=" + to + " : " + to +
                                     "[4]\noutput \"result\" = %1\n"
                               : "latentd graph 1\n%0 = weight \"w0\" : i64[4]\n"
                                 "%1 = cast(%0) to=f32 : f32[4]\n%2 = cast(%1) to=" +
                                     to + " : " + to + "[4]\noutput \"result\" = %2\n");
    }
  }
}

// Merged linears.
TEST(ComposeTest, JoinsStoredTensorsWithoutACast) {
  GraphBuilder b;
  const Value q = b.Cast(b.Weight("unet/q", {2, 4}), DType::kBF16);
  const Value k = b.Cast(b.Weight("unet/k", {2, 4}), DType::kBF16);
  const Graph recipe = Built(b, b.Concat({q, k}, 0));
  EXPECT_EQ(TextOf(Compose(recipe, {Stored(DType::kBF16, {2, 4}), Stored(DType::kF16, {2, 4})})),
            R"(latentd graph 1
%0 = weight "w0" : bf16[2,4]
%1 = weight "w1" : f16[2,4]
%2 = cast(%1) to=bf16 : bf16[2,4]
%3 = concat(%0, %2) axis=0 : bf16[4,4]
output "result" = %3
)");
}

TEST(ComposeTest, KeepsARoundingOfASource) {
  GraphBuilder b;
  const Graph rounded = Built(b, b.Cast(b.Weight("a", {4}), DType::kF16));
  ASSERT_OK_AND_ASSIGN(const Source source, Compose(rounded, {Stored(DType::kF32, {4})}));
  EXPECT_EQ(TextOf(Compose(WeightIn(DType::kF32), {source})), R"(latentd graph 1
%0 = weight "w0" : f32[4]
%1 = cast(%0) to=f16 : f16[4]
%2 = cast(%1) to=f32 : f32[4]
output "result" = %2
)");
  EXPECT_EQ(TextOf(Compose(WeightIn(DType::kBF16), {source})), R"(latentd graph 1
%0 = weight "w0" : f32[4]
%1 = cast(%0) to=f16 : f16[4]
%2 = cast(%1) to=bf16 : bf16[4]
output "result" = %2
)");
}

Source SliceOf(const Source& whole, int64_t begin, int64_t end) {
  GraphBuilder b;
  const Value all = StoredWeight(b, "in_proj", whole.dtype(), whole.shape());
  return Compose(Built(b, b.Slice(all, 0, begin, end)), {whole}).value();
}

// Query and key of a projection that is stored as one tensor.
TEST(ComposeTest, ReadsATensorOnceForAllSourcesThatAreMadeOfIt) {
  const Source whole = Stored(DType::kF16, {6, 4});
  const Source q = SliceOf(whole, 0, 2), k = SliceOf(whole, 2, 4);
  EXPECT_EQ(q.dtype(), DType::kF16);
  EXPECT_EQ(q.shape(), Shape({2, 4}));
  GraphBuilder b;
  const Value query = b.Cast(b.Weight("text/q", {2, 4}), DType::kF16);
  const Value key = b.Cast(b.Weight("text/k", {2, 4}), DType::kF16);
  const Graph recipe = Built(b, b.Concat({query, key}, 0));
  ASSERT_OK_AND_ASSIGN(const Source joined, Compose(recipe, {q, k}));
  EXPECT_EQ(joined.from.size(), 1u);
  EXPECT_EQ(TextOf(joined), R"(latentd graph 1
%0 = weight "w0" : f16[6,4]
%1 = slice(%0) axis=0 begin=0 end=2 : f16[2,4]
%2 = slice(%0) axis=0 begin=2 end=4 : f16[2,4]
%3 = concat(%1, %2) axis=0 : f16[4,4]
output "result" = %3
)");
}

TEST(ComposeTest, WidensATensorOnceForAllThatReadItInF32) {
  GraphBuilder b;
  const Value a = b.Weight("a", {4});
  const Graph recipe = Built(b, b.Mul(a, b.Add(a, a)));
  EXPECT_EQ(TextOf(Compose(recipe, {Stored(DType::kF16, {4})})), R"(latentd graph 1
%0 = weight "w0" : f16[4]
%1 = cast(%0) to=f32 : f32[4]
%2 = add(%1, %1) : f32[4]
%3 = mul(%1, %2) : f32[4]
output "result" = %3
)");
}

TEST(ComposeTest, RefusesWhatDoesNotFit) {
  const auto refused = [](const Graph& recipe, std::vector<Source> operands,
                          const std::string& message) {
    EXPECT_THAT(Compose(recipe, operands),
                StatusIs(absl::StatusCode::kInvalidArgument, HasSubstr(message)));
  };
  const Graph recipe = WeightIn(DType::kF32);
  refused(recipe, {}, "1 weights");
  refused(recipe, {Stored(DType::kF32, {4}), Stored(DType::kF32, {4})}, "2 operands");
  refused(recipe, {Stored(DType::kF16, {5})},
          "tensor unet/a of model.safetensors is f16[5], the network wants f32[4]");
  GraphBuilder half;
  const Value stored = StoredWeight(half, "a", DType::kF16, {4});
  refused(Built(half, stored), {Stored(DType::kBF16, {4})}, "wants f16[4]");
  GraphBuilder input;
  const Value x = input.Input("x", DType::kF32, {4}, graph::Rate::kStep);
  refused(Built(input, x), {}, "alone");
  StoredTensor whole{device::Buffer::Allocate(DType::kU8, {4}), "model.safetensors", "I32"};
  refused(recipe, {Source::Of(whole)}, "I32");
}

}  // namespace
}  // namespace latentd::weights
