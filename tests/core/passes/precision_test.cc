#include "core/passes/precision.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <cmath>
#include <set>

#include "core/graph/text.h"
#include "core/graph/verifier.h"
#include "core/passes/pipeline.h"
#include "core/passes/rewrite.h"
#include "tests/core/passes/equivalence.h"
#include "tests/core/passes/golden_networks.h"
#include "tests/core/passes/networks.h"
#include "tests/golden/network_graphs.h"
#include "tests/support/status_matchers.h"

namespace latentd::passes {
namespace {

using ::latentd::testing::StatusIs;
using ::testing::ElementsAre;
using ::testing::HasSubstr;

using device::Buffer;
using graph::DType;
using graph::Precision;

const Precision kBf16{DType::kBF16};

Value Tokens(GraphBuilder& b, const char* name = "x") {
  return b.Input(name, DType::kF32, {2, 3, 4}, Rate::kStep);
}

Value Linear(GraphBuilder& b, Value x, const std::string& name = "net/linear") {
  return b.Linear(x, b.Weight(name + ".weight", {4, 4}), b.Weight(name + ".bias", {4}));
}

// The pass's result for a graph with the one output `y`; it verifies, and no port has changed.
Graph Low(GraphBuilder b, Value y, const Precision& precision = kBf16) {
  b.Output("y", y);
  const Graph graph = std::move(b).Build().value();
  const auto result = ChoosePrecision(graph, precision);
  EXPECT_OK(result);
  EXPECT_OK(Verify(*result));
  for (ValueId id : result->Select(Op::kInput)) {
    EXPECT_EQ(result->node(id).dtype, DType::kF32);
  }
  EXPECT_EQ(result->node(result->outputs()[0].value).dtype, DType::kF32);
  return *result;
}

DType DTypeOf(const Graph& graph, Op op) { return graph.node(graph.Select(op).front()).dtype; }

TEST(ChoosePrecision, ReadsPixelsAndFlagsOfWhatIsLow) {
  GraphBuilder b;
  const Value made = b.Clamp(Linear(b, Tokens(b)), -1, 1);
  b.Output("pixels", b.ToPixels(made));
  b.Output("finite", b.IsFinite(made));
  const Graph graph = std::move(b).Build().value();
  ASSERT_OK_AND_ASSIGN(const Graph low, ChoosePrecision(graph, kBf16));
  EXPECT_OK(Verify(low));
  EXPECT_EQ(DTypeOf(low, Op::kClamp), DType::kBF16);
  for (const graph::Output& output : low.outputs()) {
    EXPECT_EQ(low.node(low.node(output.value).operands[0]).dtype, DType::kBF16) << output.name;
    EXPECT_EQ(low.node(output.value).dtype, DType::kU8) << output.name;
  }
}

TEST(ChoosePrecision, ComputesProductsAndWhatFollowsLow) {
  GraphBuilder b;
  const Value made = Linear(b, Tokens(b));
  const Value normed = b.LayerNorm(made, b.Weight("net/g", {4}), b.Weight("net/b", {4}), 1e-5f);
  const Value moved = b.Concat({b.Silu(normed), b.Slice(made, 1, 0, 1)}, 1);
  const Graph graph = Low(std::move(b), b.Mul(moved, b.Scalar(0.5f)));
  for (Op op : {Op::kLinear, Op::kLayerNorm, Op::kSilu, Op::kSlice, Op::kConcat, Op::kMul}) {
    EXPECT_EQ(DTypeOf(graph, op), DType::kBF16) << ToText(graph);
  }
  // Casts of x, four weights, the literal and the output.
  EXPECT_EQ(Count(graph, Op::kCast), 7);
}

// A network is built in f32 and widens it, as residuals of control networks.
TEST(ChoosePrecision, LeavesLowWhatComesLow) {
  GraphBuilder b;
  const Value low = b.Input("low", DType::kBF16, {2, 3, 4}, Rate::kStep);
  const Value other = b.Input("other", DType::kF16, {2, 3, 4}, Rate::kStep);
  const Value made = Linear(b, Tokens(b));
  b.Output("bf16", b.Silu(b.Add(made, b.Cast(low, DType::kF32))));
  b.Output("f32", b.Gelu(b.Add(made, b.Cast(other, DType::kF32))));
  b.Output("mixed", b.Tanh(b.Mul(b.Cast(low, DType::kF32), Tokens(b, "scale"))));
  const Graph graph = std::move(b).Build().value();
  ASSERT_OK_AND_ASSIGN(const Graph result, ChoosePrecision(graph, kBf16));
  EXPECT_OK(Verify(result));
  EXPECT_EQ(DTypeOf(result, Op::kSilu), DType::kBF16) << ToText(result);
  EXPECT_EQ(DTypeOf(result, Op::kGelu), DType::kF32) << ToText(result);
  EXPECT_EQ(DTypeOf(result, Op::kTanh), DType::kF32) << ToText(result);
}

TEST(ChoosePrecision, ReadsWeightsByRecipesOfHalfTheSize) {
  GraphBuilder b;
  const Graph graph = Low(std::move(b), Linear(b, Tokens(b)));
  const Node& linear = graph.node(graph.Select(Op::kLinear)[0]);
  for (int i : {1, 2}) {
    const Node& weight = graph.node(linear.operands[i]);
    EXPECT_EQ(weight.op, Op::kCast);
    EXPECT_EQ(weight.dtype, DType::kBF16);
    EXPECT_EQ(weight.rate, Rate::kCheckpoint);
  }
}

TEST(ChoosePrecision, KeepsF32WhereAWeightIsNamed) {
  GraphBuilder b;
  const Value first = Linear(b, Tokens(b), "net/a.linear");
  const Value second = b.Silu(Linear(b, first, "net/b.linear"));
  const Graph graph =
      Low(std::move(b), Linear(b, second, "net/c.linear"), {DType::kF16, {"net/b.", "net/other."}});
  const std::vector<ValueId> linears = graph.Select(Op::kLinear);
  EXPECT_EQ(graph.node(linears[0]).dtype, DType::kF16);
  EXPECT_EQ(graph.node(linears[1]).dtype, DType::kF32);
  EXPECT_EQ(graph.node(linears[2]).dtype, DType::kF16);
  EXPECT_EQ(DTypeOf(graph, Op::kSilu), DType::kF32);
}

Value SelfAttention(GraphBuilder& b, bool upcast) {
  const Value x = Tokens(b);
  std::vector<Value> parts;
  for (const char* name : {"net/q", "net/k", "net/v"}) {
    parts.push_back(Linear(b, x, name));
    if (upcast) parts.back() = b.Cast(parts.back(), DType::kF32);
  }
  return Linear(b, b.Attention(parts[0], parts[1], parts[2], {.heads = 2}), "net/out");
}

TEST(ChoosePrecision, ComputesAttentionAsItsQueryIs) {
  GraphBuilder b;
  const Graph graph = Low(std::move(b), SelfAttention(b, /*upcast=*/false));
  EXPECT_EQ(DTypeOf(graph, Op::kAttention), DType::kBF16);
}

// upcast_attention.
TEST(ChoosePrecision, KeepsF32WhatTheNetworkCastsToF32) {
  GraphBuilder b;
  const Graph graph = Low(std::move(b), SelfAttention(b, /*upcast=*/true));
  EXPECT_EQ(DTypeOf(graph, Op::kAttention), DType::kF32);
  for (ValueId id : graph.Select(Op::kLinear)) EXPECT_EQ(graph.node(id).dtype, DType::kBF16);
}

TEST(ChoosePrecision, LeavesTheArithmeticOfGuidanceAndScheduleInF32) {
  GraphBuilder b;
  const Value flat = b.Reshape(Linear(b, Tokens(b)), {2, 12});
  const Value mixed = b.Matmul(b.Input("m", DType::kF32, {2, 2}, Rate::kStep), flat);
  const Value ratio = b.Div(b.Softmax(flat), b.RowStd(flat));
  const Graph graph = Low(std::move(b), b.Add(b.Mul(mixed, ratio), b.Scalar(1)));
  EXPECT_EQ(DTypeOf(graph, Op::kReshape), DType::kBF16);
  for (Op op : {Op::kMatmul, Op::kSoftmax, Op::kRowStd, Op::kDiv, Op::kMul, Op::kAdd}) {
    EXPECT_EQ(DTypeOf(graph, op), DType::kF32) << ToText(graph);
  }
  EXPECT_EQ(Count(graph, Op::kCast), 4);  // x, weight, bias; one of flat for all who ask
}

TEST(ChoosePrecision, PromotesWhatIsMixed) {
  GraphBuilder b;
  const Value low = Linear(b, Tokens(b)), plain = Tokens(b, "plain");
  const Value sum = b.Add(b.Add(low, plain), b.Slice(b.Concat({low, plain}, 1), 1, 0, 3));
  const Graph graph = Low(std::move(b), sum);
  for (Op op : {Op::kAdd, Op::kConcat, Op::kSlice}) EXPECT_EQ(DTypeOf(graph, op), DType::kF32);
}

TEST(ChoosePrecision, LooksUpInATableOfTheCheckpointLow) {
  GraphBuilder b;
  const Value ids = b.Input("ids", DType::kI64, {2, 3}, Rate::kStep);
  b.Output("y", b.Embedding(b.Weight("net/table", {7, 4}), b.Reshape(ids, {6})));
  ASSERT_OK_AND_ASSIGN(const Graph graph, ChoosePrecision(std::move(b).Build().value(), kBf16));
  ASSERT_OK(Verify(graph));
  EXPECT_EQ(DTypeOf(graph, Op::kEmbedding), DType::kBF16);
  EXPECT_EQ(DTypeOf(graph, Op::kReshape), DType::kI64);
}

TEST(ChoosePrecision, KeepsTheDTypeOfWhatIsNotF32ToBeginWith) {
  GraphBuilder b;
  const Value half = b.Silu(b.Cast(Linear(b, Tokens(b)), DType::kF16));
  const Graph graph = Low(std::move(b), b.Cast(half, DType::kF32));
  EXPECT_EQ(DTypeOf(graph, Op::kLinear), DType::kBF16);
  EXPECT_EQ(DTypeOf(graph, Op::kSilu), DType::kF16);
}

TEST(ChoosePrecision, ChangesNothingForF32) {
  const Graph graph = SmallUnet();
  ASSERT_OK_AND_ASSIGN(const Graph same, ChoosePrecision(graph, {DType::kF32, {"net/"}}));
  EXPECT_EQ(ToText(same), ToText(graph));
}

TEST(ChoosePrecision, RefusesWhatNetworksCannotComputeIn) {
  EXPECT_THAT(ChoosePrecision(SmallUnet(), {DType::kI64}),
              StatusIs(absl::StatusCode::kInvalidArgument, HasSubstr("f32, bf16 or f16, not in")));
}

TEST(ChoosePrecision, LeavesThePassesBehindItTheSameToFuse) {
  for (graph::Layout layout : {graph::Layout::kNchw, graph::Layout::kNhwc}) {
    const graph::Target target = EagerTarget(layout);
    ASSERT_OK_AND_ASSIGN(const Graph plain, RunPasses(SmallUnet(), target));
    ASSERT_OK_AND_ASSIGN(const Graph chosen, ChoosePrecision(SmallUnet(), kBf16));
    ASSERT_OK_AND_ASSIGN(const Graph low, RunPasses(chosen, target));
    EXPECT_EQ(FusedKinds(low), FusedKinds(plain));
    for (ValueId id : low.Select(Op::kFused)) EXPECT_EQ(low.node(id).dtype, DType::kBF16);
  }
}

// The root of the mean square of the difference of two runs' outputs, of that of the output.
double RelativeDistance(const std::vector<Buffer>& a, const std::vector<Buffer>& b) {
  double worst = 0;
  for (size_t i = 0; i < a.size(); ++i) {
    double difference = 0, size = 0;
    for (size_t j = 0; j < a[i].as<float>().size(); ++j) {
      const double x = a[i].as<float>()[j], y = b[i].as<float>()[j];
      difference += (x - y) * (x - y);
      size += x * x;
    }
    // A NaN stays.
    if (!(std::sqrt(difference / size) <= worst)) worst = std::sqrt(difference / size);
  }
  return worst;
}

class GoldenNetworksLow : public ::testing::TestWithParam<std::string> {};

INSTANTIATE_TEST_SUITE_P(All, GoldenNetworksLow, ::testing::ValuesIn(GoldenNetworkNames()),
                         [](const auto& info) { return info.param; });

// A rounding of bf16 is at most 1/256, one of f16 at most 1/2048: some of them in a row.
TEST_P(GoldenNetworksLow, AreNearTheirF32SelvesAndNotEqual) {
  ASSERT_OK_AND_ASSIGN(const Network network, LoadGoldenNetwork(GetParam()));
  for (const NetworkPart& part : network.parts) {
    Runs run(golden::kComponent, network.weights, part.inputs);
    const std::vector<Buffer> expected = run(part.graph);
    for (const auto& [dtype, tolerance] : {std::pair{DType::kBF16, 0.03}, {DType::kF16, 0.004}}) {
      ASSERT_OK_AND_ASSIGN(const Graph chosen, ChoosePrecision(part.graph, {dtype}));
      ASSERT_OK_AND_ASSIGN(const Graph low, RunPasses(chosen, EagerTarget()));
      const double distance = RelativeDistance(expected, run(low));
      EXPECT_LE(distance, tolerance) << part.name << " " << device::Name(dtype);
      EXPECT_GE(distance, tolerance / 1000) << part.name << " " << device::Name(dtype);
    }
  }
}

// Dtypes of the attention of a network's steps in bf16.
std::set<DType> AttentionOf(const std::string& name) {
  std::set<DType> dtypes;
  const Network network = LoadGoldenNetwork(name).value();
  for (const NetworkPart& part : network.parts) {
    const Graph low = ChoosePrecision(part.graph, kBf16).value();
    for (ValueId id : low.Select(Op::kAttention)) dtypes.insert(low.node(id).dtype);
  }
  return dtypes;
}

TEST(UpcastAttention, StaysF32WhereTheConfigSaysSo) {
  EXPECT_THAT(AttentionOf("unet_sd15_small"), ElementsAre(DType::kBF16));
  EXPECT_THAT(AttentionOf("unet_sd21_small"), ElementsAre(DType::kF32));
}

}  // namespace
}  // namespace latentd::passes
