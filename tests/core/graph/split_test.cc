#include "core/graph/split.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <functional>

#include "core/graph/graph_builder.h"
#include "core/graph/text.h"
#include "core/graph/verifier.h"
#include "tests/support/status_matchers.h"

namespace latentd::graph {
namespace {

using ::testing::AllOf;
using ::testing::ElementsAre;
using ::testing::HasSubstr;
using ::testing::Not;
using testing::StatusIs;

// Cross-attention in small: keys and an embedding per request, the rest per step.
Graph CrossAttention(int64_t rows) {
  GraphBuilder b;
  const Value latents = b.Input("latents", DType::kF32, {rows, 5, 8}, Rate::kStep);
  const Value text = b.Input("text", DType::kF32, {rows, 7, 6}, Rate::kRequest);
  const Value ids = b.Input("time_ids", DType::kF32, {rows, 3}, Rate::kRequest);
  const Value key = b.Linear(text, b.Weight("k", {8, 6}));
  const Value value = b.Linear(text, b.Weight("v", {8, 6}));
  const Value embedded = b.TimestepEmbedding(b.Reshape(ids, {rows * 3}), {4});
  const Value flat = b.Reshape(embedded, {rows, 12});
  const Value added = b.Linear(flat, b.Weight("a", {8, 12}));
  const Value x = b.Attention(latents, key, value, {2, 0.5f});
  b.Output("out", b.Add(x, b.Reshape(added, {rows, 1, 8})));
  return *std::move(b).Build();
}

TEST(SplitByRate, PacksWhatTheStepPartReads) {
  ASSERT_OK_AND_ASSIGN(const SplitGraphs split, SplitByRate(CrossAttention(2)));
  ASSERT_TRUE(split.request.has_value());
  EXPECT_EQ(ToText(*split.request), R"(latentd graph 1
%0 = input "text" rate=request : f32[1,7,6]
%1 = input "time_ids" rate=request : f32[1,3]
%2 = weight "k" : f32[8,6]
%3 = linear(%0, %2) : f32[1,7,8]
%4 = weight "v" : f32[8,6]
%5 = linear(%0, %4) : f32[1,7,8]
%6 = reshape(%1) shape=[3] : f32[3]
%7 = timestep_embedding(%6) dim=4 flip_sin_to_cos=true downscale_freq_shift=0 : f32[3,4]
%8 = reshape(%7) shape=[1,12] : f32[1,12]
%9 = weight "a" : f32[8,12]
%10 = linear(%8, %9) : f32[1,8]
%11 = reshape(%10) shape=[1,1,8] : f32[1,1,8]
%12 = reshape(%3) shape=[1,56] : f32[1,56]
%13 = reshape(%5) shape=[1,56] : f32[1,56]
%14 = reshape(%11) shape=[1,8] : f32[1,8]
%15 = concat(%12, %13, %14) axis=1 : f32[1,120]
output "request.f32" = %15
)");
  EXPECT_EQ(ToText(split.step), R"(latentd graph 1
%0 = input "request.f32" rate=step : f32[2,120]
%1 = input "latents" rate=step : f32[2,5,8]
%2 = slice(%0) axis=1 begin=0 end=56 : f32[2,56]
%3 = reshape(%2) shape=[2,7,8] : f32[2,7,8]
%4 = slice(%0) axis=1 begin=56 end=112 : f32[2,56]
%5 = reshape(%4) shape=[2,7,8] : f32[2,7,8]
%6 = attention(%1, %3, %5) heads=2 scale=0.5 causal=false : f32[2,5,8]
%7 = slice(%0) axis=1 begin=112 end=120 : f32[2,8]
%8 = reshape(%7) shape=[2,1,8] : f32[2,1,8]
%9 = add(%6, %8) : f32[2,5,8]
output "out" = %9
)");
  EXPECT_OK(Verify(*split.request));
  EXPECT_OK(Verify(split.step));
}

TEST(SplitByRate, GivesOneRequestGraphForAllRowCounts) {
  ASSERT_OK_AND_ASSIGN(const SplitGraphs one, SplitByRate(CrossAttention(1)));
  ASSERT_OK_AND_ASSIGN(const SplitGraphs four, SplitByRate(CrossAttention(4)));
  EXPECT_EQ(ToText(*one.request), ToText(*four.request));
  EXPECT_NE(ToText(one.step), ToText(four.step));
}

TEST(SplitByRate, LeavesAGraphWithoutRequestWorkAsItIs) {
  GraphBuilder b;
  const Value x = b.Input("x", DType::kF32, {2, 4}, Rate::kStep);
  const Value scale = b.Input("scale", DType::kF32, {2, 1}, Rate::kRequest);
  b.Output("y", b.Mul(x, scale));
  ASSERT_OK_AND_ASSIGN(const Graph graph, std::move(b).Build());
  ASSERT_OK_AND_ASSIGN(const SplitGraphs split, SplitByRate(graph));
  EXPECT_FALSE(split.request.has_value());
  EXPECT_EQ(ToText(split.step), ToText(graph));
}

TEST(SplitByRate, PacksEachDtypeByItself) {
  GraphBuilder b;
  const Value x = b.Input("x", DType::kF32, {2, 4}, Rate::kStep);
  const Value half = b.Input("half", DType::kF16, {2, 4}, Rate::kRequest);
  const Value ids = b.Input("ids", DType::kI64, {2, 3}, Rate::kRequest);
  const Value plain = b.Input("plain", DType::kF32, {2, 4}, Rate::kRequest);
  b.Output("y", b.Add(x, plain));
  b.Output("z", b.Add(b.Cast(x, DType::kF16), b.Silu(half)));
  b.Output("u", b.Add(b.Cast(x, DType::kF16), half));
  b.Output("v", b.Embedding(x, ids));
  ASSERT_OK_AND_ASSIGN(const Graph graph, std::move(b).Build());
  ASSERT_OK_AND_ASSIGN(const SplitGraphs split, SplitByRate(graph));
  ASSERT_TRUE(split.request.has_value());
  std::vector<std::string> packed;
  for (const Output& output : split.request->outputs()) {
    const Node& node = split.request->node(output.value);
    packed.push_back(output.name + " " + node.shape.ToString());
    EXPECT_EQ(output.name, std::string(kPackedPrefix) + std::string(device::Name(node.dtype)));
  }
  EXPECT_THAT(packed, ElementsAre("request.f32 [1,4]", "request.f16 [1,8]", "request.i64 [1,3]"));
  EXPECT_OK(Verify(split.step));
  EXPECT_THAT(ToText(split.step), AllOf(HasSubstr("input \"request.f32\" rate=step : f32[2,4]"),
                                        HasSubstr("input \"request.f16\" rate=step : f16[2,8]"),
                                        HasSubstr("input \"request.i64\" rate=step : i64[2,3]"),
                                        Not(HasSubstr("cast(%0"))));
}

using Network = std::function<Value(GraphBuilder&, Value request)>;

// The status of splitting a network on a request-rate [2, 2] value.
absl::Status SplitOf(const Network& network) {
  GraphBuilder b;
  const Value request = b.Input("r", DType::kF32, {2, 2}, Rate::kRequest);
  const Value step = b.Input("s", DType::kF32, {1}, Rate::kStep);
  b.Output("y", b.Mul(network(b, request), step));
  absl::StatusOr<Graph> graph = std::move(b).Build();
  return graph.ok() ? SplitByRate(*graph).status() : graph.status();
}

TEST(SplitByRate, RefusesWhatMixesRowsAndNamesTheNode) {
  const std::pair<const char*, Network> cases[] = {
      {"concat",
       [](GraphBuilder& b, Value r) {
         return b.Concat({r, r}, 0);
       }},
      {"slice", [](GraphBuilder& b, Value r) { return b.Slice(r, 0, 0, 1); }},
      {"permute",
       [](GraphBuilder& b, Value r) {
         return b.Permute(r, {1, 0});
       }},
      {"softmax", [](GraphBuilder& b, Value r) { return b.Softmax(b.Reshape(r, {4})); }},
      {"geglu", [](GraphBuilder& b, Value r) { return b.Geglu(b.Reshape(r, {4})); }},
      {"matmul", [](GraphBuilder& b, Value r) { return b.Matmul(r, r); }},
      {"linear", [](GraphBuilder& b, Value r) { return b.Linear(r, r); }},
      {"add",
       [](GraphBuilder& b, Value r) { return b.Add(r, b.Reshape(b.Slice(r, 1, 0, 1), {2})); }},
      {"add",
       [](GraphBuilder& b, Value r) {
         return b.Add(r, b.Weight("w", {2, 2}));
       }},
      {"reshape",
       [](GraphBuilder& b, Value r) {
         return b.Reshape(r, {1, 4});
       }},
      {"low_rank",
       [](GraphBuilder& b, Value r) {
         const Value matrices = b.Reshape(r, {2, 1, 2});
         return b.LowRank(r, r,
                          {.down = matrices,
                           .up = b.Reshape(r, {2, 2, 1}),
                           .slot = b.Input("slot", DType::kI64, {2}, Rate::kRequest),
                           .scale = b.Reshape(b.Slice(r, 1, 0, 1), {2, 1})});
       }},
  };
  for (const auto& [op, network] : cases) {
    EXPECT_THAT(SplitOf(network),
                StatusIs(absl::StatusCode::kInvalidArgument,
                         AllOf(HasSubstr(op), HasSubstr("cannot be split by rows"))))
        << op;
  }
}

TEST(SplitByRate, RefusesRequestInputsOfDifferentRows) {
  GraphBuilder b;
  const Value a = b.Input("a", DType::kF32, {2, 2}, Rate::kRequest);
  const Value c = b.Input("c", DType::kF32, {1, 2}, Rate::kRequest);
  b.Output("y", b.Mul(b.Add(a, c), b.Input("s", DType::kF32, {1}, Rate::kStep)));
  ASSERT_OK_AND_ASSIGN(const Graph graph, std::move(b).Build());
  EXPECT_THAT(SplitByRate(graph),
              StatusIs(absl::StatusCode::kInvalidArgument, HasSubstr("request input \"c\" [1,2]")));
}

}  // namespace
}  // namespace latentd::graph
