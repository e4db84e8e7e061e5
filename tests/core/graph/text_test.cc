#include "core/graph/text.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <bit>
#include <cmath>
#include <limits>
#include <random>

#include "absl/strings/str_cat.h"
#include "core/graph/graph_builder.h"
#include "core/graph/verifier.h"
#include "tests/support/status_matchers.h"
#include "tests/support/stored_weight.h"

namespace latentd::graph {
namespace {

using ::testing::HasSubstr;
using testing::IsOk;
using ::testing::Not;
using testing::StatusIs;

std::shared_ptr<const Graph> SiluBody() {
  GraphBuilder b;
  b.Output("result", b.Silu(b.Input("0", DType::kF32, {1, 8, 8, 8}, Rate::kStep)));
  return std::make_shared<const Graph>(*std::move(b).Build());
}

Graph SmallGraph() {
  GraphBuilder b;
  const Value x = b.Input("x", DType::kF32, {1, 4, 8, 8}, Rate::kStep);
  const Value y = b.Conv2d(x, b.Weight("unet/w", {8, 4, 3, 3}), kNone, {.padding = {1, 1, 1, 1}});
  const Value fused = b.Append({.op = Op::kFused,
                                .operands = {y.id},
                                .attributes = FusedAttributes{"activation", SiluBody()}});
  b.Output("y", b.Mul(fused, b.Scalar(0.1f)));
  return *std::move(b).Build();
}

constexpr char kSmallText[] = R"(latentd graph 1
%0 = input "x" rate=step : f32[1,4,8,8]
%1 = weight "unet/w" : f32[8,4,3,3]
%2 = conv2d(%0, %1) stride=1 padding=[1,1,1,1] layout=nchw : f32[1,8,8,8]
%3 = fused(%2) kind="activation" body={
  %0 = input "0" rate=step : f32[1,8,8,8]
  %1 = silu(%0) : f32[1,8,8,8]
  output "result" = %1
} : f32[1,8,8,8]
%4 = constant values=[0.1] : f32[]
%5 = mul(%3, %4) : f32[1,8,8,8]
output "y" = %5
)";

// Every op, and attributes away from their defaults.
Graph EveryOp() {
  GraphBuilder b;
  Value x = b.Input("image", DType::kF32, {2, 8, 6, 4}, Rate::kStep);
  x = b.Conv2d(x, b.Weight("conv", {4, 4, 3, 3}), b.Weight("b", {4}),
               {.stride = 2, .padding = {0, 1, 2, 3}, .layout = Layout::kNhwc});
  x = b.GroupNorm(x, testing::CastWeight(b, "half", DType::kF16, {4}), b.Weight("b", {4}),
                  {2, 1e-6f, Layout::kNhwc});
  x = b.UpsampleNearest(x, 5, 7, Layout::kNhwc);
  x = b.Div(b.Sub(b.Tanh(b.Relu(b.QuickGelu(b.Gelu(x)))), b.RowStd(x)), b.Scalar(-0.0f));
  Value tokens = b.Reshape(b.Permute(x, {0, 2, 1, 3}), {2, 35, 4});
  tokens = b.LayerNorm(tokens, b.Weight("b", {4}), b.Weight("b", {4}), 1e-12f);
  tokens = b.Attention(tokens, tokens, tokens, {2, 0.70710678f, true});
  tokens = b.Matmul(b.Softmax(tokens), b.Permute(tokens, {0, 2, 1}));
  const Value path = tokens;
  tokens = b.Linear(tokens, b.Weight("l", {6, 35}), b.Weight("lb", {6}));
  const auto step = [&](const char* name, const Shape& shape, DType dtype = DType::kF32) {
    return b.Input(name, dtype, shape, Rate::kStep);
  };
  tokens = b.LowRank(tokens, path,
                     {.down = step("down", {3, 2, 35}),
                      .up = step("up", {3, 6, 2}),
                      .slot = step("slot", {2}, DType::kI64),
                      .scale = step("scale", {2, 2})});
  b.Output("tokens", b.Silu(b.Geglu(b.Slice(b.Concat({tokens, tokens}, 1), 1, 30, 40))));
  const Value ids = b.Input("ids", DType::kI64, {2, 7}, Rate::kRequest);
  b.Output("embedded", b.Mul(b.Embedding(b.Weight("table", {9, 4}), ids), b.Weight("b", {4})));
  const Value t = b.TimestepEmbedding(b.Input("t", DType::kF32, {2}, Rate::kStep), {6, false, 1});
  b.Output("embedded_t", b.Cast(b.Add(t, t), DType::kBF16));
  const Value next = b.Increment(b.Input("entry", DType::kI64, {2}, Rate::kStep));
  const Value own = b.Exp(b.Clamp(b.Select(tokens, next), -30, 20));
  b.Output("finite", b.IsFinite(own));
  b.Output("pixels", b.ToPixels(own));
  const auto input = [&](const char* name, const Shape& shape) {
    return b.Input(name, DType::kF32, shape, Rate::kStep);
  };
  b.Output("state", b.SchedulerStep(input("state", {2, 4, 6}), input("output", {2, 6}),
                                    input("noise", {2, 6}), input("line", {2, 27})));
  return *std::move(b).Build();
}

TEST(ToText, PrintsTheDocumentedForm) { EXPECT_EQ(ToText(SmallGraph()), kSmallText); }

// The heart of every cache key: where this changes, every cache misses, so change it on purpose and
// with the version in the first line.
TEST(ToText, KeepsItsDigest) {
  EXPECT_EQ(GraphDigest(SmallGraph()).ToString(), "8014b444bfdc714412d82256149617ea");
}

TEST(ParseText, GivesBackTheSameText) {
  for (const Graph& graph : {SmallGraph(), EveryOp()}) {
    const std::string text = ToText(graph);
    ASSERT_OK_AND_ASSIGN(const Graph parsed, ParseText(text));
    EXPECT_EQ(ToText(parsed), text);
    EXPECT_OK(Verify(parsed));
    EXPECT_EQ(parsed.size(), graph.size());
  }
}

TEST(ParseText, GivesBackEveryBitOfAFloat) {
  std::vector<float> values = {0.0f,
                               -0.0f,
                               0.1f,
                               1.0f / 3,
                               1e-45f,
                               3.4028235e38f,
                               16777216.0f,
                               std::numeric_limits<float>::infinity(),
                               -std::numeric_limits<float>::infinity()};
  std::mt19937 random(1);
  while (values.size() < 2000) {
    const float value = std::bit_cast<float>(static_cast<uint32_t>(random()));
    if (!std::isnan(value)) values.push_back(value);
  }
  GraphBuilder b;
  b.Output("y", b.Constant(values, {static_cast<int64_t>(values.size())}));
  ASSERT_OK_AND_ASSIGN(const Graph graph, std::move(b).Build());
  ASSERT_OK_AND_ASSIGN(const Graph parsed, ParseText(ToText(graph)));
  const auto& read = std::get<ConstantAttributes>(parsed.node(0).attributes).values;
  ASSERT_EQ(read.size(), values.size());
  for (size_t i = 0; i < values.size(); ++i) {
    EXPECT_EQ(std::bit_cast<uint32_t>(read[i]), std::bit_cast<uint32_t>(values[i])) << values[i];
  }
}

TEST(ParseText, RefusesEveryPrefix) {
  const std::string text = ToText(SmallGraph());
  for (size_t size = 0; size < text.size(); ++size) {
    EXPECT_THAT(ParseText(text.substr(0, size)), Not(IsOk())) << size;
  }
}

TEST(ParseText, EveryChangedByteIsRefusedOrAnotherValidGraph) {
  const std::string text = ToText(SmallGraph());
  for (size_t i = 0; i < text.size(); ++i) {
    for (const char c : {'\0', ' ', '\n', '%', '(', '9', '-', 'x', '\x80'}) {
      std::string changed = text;
      changed[i] = c;
      if (const auto parsed = ParseText(changed); parsed.ok()) {
        EXPECT_EQ(ToText(*parsed), changed);
      }
    }
  }
}

TEST(ParseText, SurvivesShuffledPieces) {
  const std::string text = ToText(EveryOp());
  std::mt19937 random(7);
  const auto upto = [&random](size_t n) { return random() % n; };
  for (int round = 0; round < 2000; ++round) {
    std::string mangled = text;
    for (int i = 0; i < 3; ++i) {
      const std::string piece = text.substr(upto(text.size()), upto(60));
      mangled.replace(upto(mangled.size()), upto(20), piece);
    }
    if (const auto parsed = ParseText(mangled); parsed.ok()) {
      EXPECT_EQ(ToText(*parsed), mangled);
    }
  }
}

TEST(ParseText, RefusesWhatWouldPrintDifferently) {
  EXPECT_THAT(ParseText(absl::StrCat(kSmallText, "\n")),
              StatusIs(absl::StatusCode::kInvalidArgument, HasSubstr("line 13: not as it would")));
}

TEST(ParseText, SaysWhatWasExpectedAndWhere) {
  EXPECT_THAT(ParseText("latentd graph 2\n"),
              StatusIs(absl::StatusCode::kInvalidArgument, HasSubstr("line 1: expected")));
  EXPECT_THAT(ParseText("latentd graph 1\n%0 = swoosh(%0)\n"),
              StatusIs(absl::StatusCode::kInvalidArgument, HasSubstr("line 2: expected an op")));
}

TEST(ParseText, RefusesDeepNestingWithoutRecursing) {
  std::string text = "latentd graph 1\n%0 = input \"x\" rate=step : f32[4]\n";
  for (int i = 0; i < 100000; ++i) {
    absl::StrAppend(&text, "%1 = fused(%0) kind=\"k\" body={%0 = input \"0\" rate=step : f32[4]\n");
  }
  EXPECT_THAT(ParseText(text), StatusIs(absl::StatusCode::kInvalidArgument,
                                        HasSubstr("no fused node inside a body")));
}

TEST(ParseText, RefusesListsAndNumbersBeyondTheirBounds) {
  std::string many = "latentd graph 1\n%0 = constant values=[0";
  for (int i = 0; i < 70000; ++i) many += ",0";
  for (const std::string& text :
       {many, std::string("latentd graph 1\n%0 = input \"x\" rate=step : f32[1,1,1,1,1,1,1,1,1]\n"),
        std::string("latentd graph 1\n%0 = input \"x\" rate=step : f32[99999999999999999999]\n"),
        std::string("latentd graph 1\n%0 = constant values=[1e99] : f32[1]\n"),
        std::string("latentd graph 1\n%99999999999999999999 = "),
        std::string("latentd graph 1\n%0 = constant values=[nan] : f32[1]\noutput \"y\" = %0\n"),
        std::string(17 << 20, ' ')}) {
    EXPECT_THAT(ParseText(text), Not(IsOk())) << text.substr(0, 80);
  }
}

TEST(FusedAttributes, AreEqualIfTheirBodiesPrintTheSame) {
  const FusedAttributes a{"k", SiluBody()}, b{"k", SiluBody()}, other_kind{"l", a.body};
  GraphBuilder builder;
  builder.Output("result", builder.Gelu(builder.Input("0", DType::kF32, {1}, Rate::kStep)));
  const FusedAttributes other_body{"k", std::make_shared<const Graph>(*std::move(builder).Build())};
  EXPECT_EQ(a, b);
  EXPECT_FALSE(a == other_kind);
  EXPECT_FALSE(a == other_body);
  EXPECT_FALSE(a == (FusedAttributes{"k", nullptr}));
}

}  // namespace
}  // namespace latentd::graph
