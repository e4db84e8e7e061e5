#include "core/passes/f8_sites.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <cmath>
#include <functional>
#include <random>

#include "core/graph/text.h"
#include "core/graph/verifier.h"
#include "core/passes/f8_bounds.h"
#include "core/passes/pipeline.h"
#include "core/passes/precision.h"
#include "core/passes/rewrite.h"
#include "tests/conformance/run_graph.h"
#include "tests/core/passes/equivalence.h"
#include "tests/core/passes/networks.h"
#include "tests/support/status_matchers.h"

namespace latentd::passes {
namespace {

using device::Buffer;
using graph::DType;
using graph::Shape;
using ::testing::ElementsAre;
using ::testing::UnorderedElementsAre;

constexpr int64_t kChannels = 32, kHidden = 64;

const graph::Precision kF8{DType::kBF16,
                           {},
                           {"net/*.to_q", "net/*.to_k", "net/*.to_v", "net/*.to_out", "net/*.gated",
                            "net/*.ff_out", "net/*.proj_in"}};

Value LinearOf(GraphBuilder& b, Value x, const std::string& name, int64_t out, bool bias = true) {
  return b.Linear(x, b.Weight("net/block." + name, {out, b.shape(x)[-1]}),
                  bias ? b.Weight("net/block." + name + "_bias", {out}) : graph::kNone);
}

Value NormOf(GraphBuilder& b, Value x, const std::string& name) {
  return b.LayerNorm(x, b.Weight("net/block." + name, {b.shape(x)[-1]}),
                     b.Weight("net/block." + name + "_beta", {b.shape(x)[-1]}), 1e-5f);
}

// A transformer block whose residual stream was made by a linear that no policy names.
Graph Block() {
  GraphBuilder b;
  Value x = LinearOf(b, b.Input("x", DType::kF32, {2, 9, kChannels}, Rate::kStep), "in", kChannels);
  Value normed = NormOf(b, x, "norm1");
  const Value mixed = b.Attention(
      LinearOf(b, normed, "to_q", kChannels, false), LinearOf(b, normed, "to_k", kChannels, false),
      LinearOf(b, normed, "to_v", kChannels, false), {.heads = 2, .scale = 0.25f});
  x = b.Add(x, LinearOf(b, mixed, "to_out", kChannels));
  normed = NormOf(b, x, "norm3");
  const Value gated = b.Geglu(LinearOf(b, normed, "gated", 2 * kHidden));
  x = b.Add(x, LinearOf(b, gated, "ff_out", kChannels));
  b.Output("y", LinearOf(b, x, "out", kChannels));
  return std::move(b).Build().value();
}

Graph Quantized(const Graph& graph, const graph::Precision& precision = kF8) {
  const auto chosen = ChoosePrecision(graph, precision);
  EXPECT_OK(chosen);
  auto quantized = QuantizeProducts(*chosen, precision);
  EXPECT_OK(quantized);
  EXPECT_OK(Verify(*quantized));
  return *std::move(quantized);
}

// Names of the weights of 8-bit products, in order.
std::vector<std::string> F8Names(const Graph& graph) {
  std::vector<std::string> names;
  for (const ValueId id : graph.Select(Op::kF8Linear)) {
    const Node& weight = graph.node(graph.node(id).operands[1]);
    EXPECT_EQ(weight.op, Op::kQuantize);
    names.push_back(graph.node(weight.operands[0]).name);
  }
  return names;
}

TEST(Matches, TakesAnythingForAStar) {
  EXPECT_TRUE(Matches("unet/*.attn1.to_q.weight", "unet/down_blocks.1.attn1.to_q.weight"));
  EXPECT_FALSE(Matches("unet/*.attn1.to_q.weight", "unet/down_blocks.1.attn2.to_q.weight"));
  EXPECT_FALSE(Matches("unet/*.attn1.to_q.weight", "vae/down_blocks.1.attn1.to_q.weight"));
  EXPECT_FALSE(Matches("unet/*.attn1.to_q.weight", "unet/down_blocks.1.attn1.to_q.weight2"));
  EXPECT_TRUE(Matches("a*b*c", "axbxc"));
  EXPECT_TRUE(Matches("a*b*c", "abc"));
  EXPECT_FALSE(Matches("a*b*c", "acb"));
  EXPECT_FALSE(Matches("ab*ba", "aba"));
  EXPECT_TRUE(Matches("exact", "exact"));
  EXPECT_FALSE(Matches("exact", "exactly"));
  EXPECT_TRUE(Matches("*", ""));
}

TEST(QuantizeProducts, TakesThoseThatAreNamedAndBounded) {
  const Graph graph = Quantized(Block());
  EXPECT_THAT(F8Names(graph),
              UnorderedElementsAre("net/block.to_q", "net/block.to_k", "net/block.to_v",
                                   "net/block.to_out", "net/block.gated", "net/block.ff_out"));
  EXPECT_EQ(Count(graph, Op::kLinear) - 2, 2) << "in and out, and two bounds of recipes";
  // Queries, keys and values read one quantised operand.
  int operands = 0;
  for (const ValueId id : graph.Select(Op::kQuantize)) {
    operands += graph.node(id).rate != Rate::kCheckpoint;
  }
  EXPECT_EQ(operands, 4);
}

TEST(QuantizeProducts, LeavesAGraphAloneWhereNothingIsNamed) {
  const graph::Precision bf16{DType::kBF16};
  ASSERT_OK_AND_ASSIGN(const Graph chosen, ChoosePrecision(Block(), bf16));
  EXPECT_EQ(graph::ToText(Quantized(Block(), bf16)), graph::ToText(chosen));
  graph::Precision other = bf16;
  other.f8_weights = {"net/*.to_nothing"};
  EXPECT_EQ(Count(Quantized(Block(), other), Op::kF8Linear), 0);
}

TEST(QuantizeProducts, LeavesWhatStaysF32) {
  graph::Precision precision = kF8;
  precision.f32_weights = {"net/block.to_out"};
  EXPECT_THAT(F8Names(Quantized(Block(), precision)),
              ::testing::Not(::testing::Contains("net/block.to_out")));
}

TEST(QuantizeProducts, LeavesWhatHasNoBound) {
  GraphBuilder b;
  const Value x =
      LinearOf(b, b.Input("x", DType::kF32, {2, kChannels}, Rate::kStep), "in", kChannels);
  const Value raw = LinearOf(b, x, "to_q", kChannels);
  const Value sum = b.Add(NormOf(b, x, "norm"), x);
  b.Output("y", b.Add(raw, LinearOf(b, sum, "to_k", kChannels)));
  EXPECT_EQ(Count(Quantized(std::move(b).Build().value()), Op::kF8Linear), 0);
}

TEST(QuantizeProducts, LeavesSidesThatAreNoMultiplesOf16) {
  GraphBuilder b;
  const Value x = LinearOf(b, b.Input("x", DType::kF32, {2, 24}, Rate::kStep), "in", 24);
  const Value wide = NormOf(b, LinearOf(b, x, "wide", kChannels), "norm2");
  const Value narrow = LinearOf(b, wide, "to_k", 24);
  b.Output("y", b.Add(LinearOf(b, NormOf(b, x, "norm"), "to_q", 24), narrow));
  EXPECT_EQ(Count(Quantized(std::move(b).Build().value()), Op::kF8Linear), 0);
}

TEST(QuantizeProducts, FindsTheBoundOfAGroupNormBehindMovement) {
  GraphBuilder b;
  const Value image = b.Conv2d(b.Input("x", DType::kF32, {1, 4, 3, 5}, Rate::kStep),
                               b.Weight("net/conv", {kChannels, 4, 1, 1}), graph::kNone, {});
  const Value normed = b.GroupNorm(image, b.Weight("net/gamma", {kChannels}),
                                   b.Weight("net/beta", {kChannels}), {.groups = 4});
  const Value tokens = b.Reshape(b.Permute(normed, {0, 2, 3, 1}), {1, 15, kChannels});
  b.Output("y", LinearOf(b, tokens, "proj_in", kChannels));
  EXPECT_THAT(F8Names(Quantized(std::move(b).Build().value())), ElementsAre("net/block.proj_in"));
}

// Convolutions of a residual block, and one that reads what has no bound.
const graph::Precision kF8All{
    DType::kBF16, {}, {}, {"net/*.conv1", "net/*.conv2", "net/*.raw"}, {"net/first.*"}};

Value NormedConv(GraphBuilder& b, Value x, const std::string& name) {
  const int64_t channels = b.shape(x)[1];
  const Value norm = b.GroupNorm(x, b.Weight("net/" + name + "_gamma", {channels}),
                                 b.Weight("net/" + name + "_beta", {channels}), {.groups = 4});
  return b.Conv2d(b.Silu(norm), b.Weight("net/" + name, {kChannels, channels, 3, 3}),
                  b.Weight("net/" + name + "_bias", {kChannels}), {.padding = {1, 1, 1, 1}});
}

// Adds what time gives to each channel between the two, as a UNet's blocks do.
Value ResidualBlock(GraphBuilder& b, Value x, const std::string& name) {
  const Value time = LinearOf(b, b.Input(name + "_time", DType::kF32, {2, 8}, Rate::kStep),
                              name + "_time", kChannels);
  const Value hidden =
      b.Add(NormedConv(b, x, name + ".conv1"), b.Reshape(time, {2, kChannels, 1, 1}));
  return b.Add(x, NormedConv(b, hidden, name + ".conv2"));
}

Graph ResidualBlocks() {
  GraphBuilder b;
  Value x = b.Conv2d(b.Input("x", DType::kF32, {2, 4, 6, 5}, Rate::kStep),
                     b.Weight("net/conv_in", {kChannels, 4, 3, 3}), graph::kNone,
                     {.padding = {1, 1, 1, 1}});
  x = ResidualBlock(b, ResidualBlock(b, x, "first"), "second");
  b.Output("y", b.Conv2d(x, b.Weight("net/last.raw", {kChannels, kChannels, 3, 3}), graph::kNone,
                         {.stride = 2, .padding = {1, 1, 1, 1}}));
  return std::move(b).Build().value();
}

TEST(QuantizeProducts, TakesConvolutionsThatAreNamedAndBounded) {
  const Graph graph = Quantized(ResidualBlocks(), kF8All);
  std::vector<std::string> names;
  for (const ValueId id : graph.Select(Op::kF8Conv2d)) {
    names.push_back(graph.node(graph.node(graph.node(id).operands[1]).operands[0]).name);
    const auto& conv = std::get<graph::F8Conv2dAttributes>(graph.node(id).attributes);
    EXPECT_EQ(conv,
              (graph::F8Conv2dAttributes{1, {1, 1, 1, 1}, graph::Layout::kNchw, DType::kBF16}));
  }
  EXPECT_THAT(names, ElementsAre("net/second.conv1", "net/second.conv2"))
      << "the first block is an exception, and the last convolution reads the residual stream";
  EXPECT_EQ(Count(Quantized(ResidualBlocks(), kF8), Op::kF8Conv2d), 0)
      << "names of linears are none of convolutions";
}

TEST(QuantizeProducts, FusesConvolutionsWithWhatIsAroundThem) {
  const Graph quantized = Quantized(ResidualBlocks(), kF8All);
  Runs run(quantized);
  const std::vector<Buffer> before = run(quantized);
  for (const graph::Layout layout : {graph::Layout::kNchw, graph::Layout::kNhwc}) {
    ASSERT_OK_AND_ASSIGN(const Graph after, RunPasses(quantized, EagerTarget(layout)));
    EXPECT_LT(Distance(run(after), before), 0.02);
    EXPECT_THAT(FusedKinds(after),
                ::testing::IsSupersetOf({graph::kGroupNormSiluF8, graph::kGroupNormSiluF8,
                                         graph::kF8Conv2dEpilogue, graph::kGroupNormSilu,
                                         graph::kConv2dEpilogue}));
    EXPECT_EQ(Count(after, Op::kF8Conv2d), 1) << "the one without a residual";
    EXPECT_EQ(Count(after, Op::kQuantize), Count(quantized, Op::kQuantize) - 2);
    EXPECT_EQ(Count(after, Op::kPermute), layout == graph::Layout::kNchw ? 0 : 2)
        << "of the whole graph's input and result";
  }
}

// Deviation of the difference as a share of the exact one's.
double Loss(const std::vector<Buffer>& a, const std::vector<Buffer>& exact) {
  double difference = 0, size = 0;
  const std::vector<double> x = testing::ToDoubles(a[0]), y = testing::ToDoubles(exact[0]);
  for (size_t i = 0; i < x.size(); ++i) {
    difference += (x[i] - y[i]) * (x[i] - y[i]);
    size += y[i] * y[i];
  }
  return std::sqrt(difference / size);
}

// 8 bits of two operands are 3.7 % of a product's deviation; there are several behind each other,
// and the softmax of random weights is sharp.
TEST(QuantizeProducts, ComputesWhatBf16DoesButForEightBits) {
  const Graph block = Block();
  Runs run(block);
  const std::vector<Buffer> exact = run(block);
  ASSERT_OK_AND_ASSIGN(const Graph bf16, ChoosePrecision(block, {DType::kBF16}));
  EXPECT_LT(Loss(run(bf16), exact), 0.01);
  const double loss = Loss(run(Quantized(block)), exact);
  EXPECT_LT(loss, 0.2);
  EXPECT_GT(loss, 0.005) << "nothing was quantised";
}

TEST(QuantizeProducts, StaysTheSameThroughAllPasses) {
  const Graph quantized = Quantized(Block());
  Runs run(quantized);
  const std::vector<Buffer> before = run(quantized);
  ASSERT_OK_AND_ASSIGN(const Graph after, RunPasses(quantized, EagerTarget()));
  EXPECT_LT(Distance(run(after), before), 0.02);
  // Queries, keys and values are one product, and those with residuals are fused.
  EXPECT_THAT(
      FusedKinds(after),
      UnorderedElementsAre(graph::kLayerNormF8, graph::kAttentionF8, graph::kF8LinearEpilogue,
                           graph::kLayerNormF8, graph::kF8LinearGeglu, graph::kF8LinearEpilogue));
  EXPECT_EQ(Count(after, Op::kF8Linear), 1);
}

TEST(QuantizeProducts, LeavesGegluToItselfWhereTheTargetHasNoSuchProduct) {
  graph::Target target = EagerTarget();
  target.fused.erase(graph::kF8LinearGeglu);
  ASSERT_OK_AND_ASSIGN(const Graph after, RunPasses(Quantized(Block()), target));
  EXPECT_THAT(FusedKinds(after), ::testing::Contains(graph::kGegluF8));
  EXPECT_EQ(Count(after, Op::kF8Linear), 2);
}

TEST(QuantizeProducts, GivesScalesThatArePowersOfTwoAndRecipes) {
  const Graph quantized = Quantized(Block());
  for (const ValueId id : quantized.Select(Op::kF8Linear)) {
    const Node& scale = quantized.node(quantized.node(id).operands[2]);
    EXPECT_EQ(scale.op, Op::kMul);
    EXPECT_EQ(scale.rate, Rate::kCheckpoint);
    for (const ValueId part : scale.operands) {
      EXPECT_EQ(quantized.node(part).op, Op::kF8Scale);
    }
  }
}

// A graph of one value, `write`'s, and of its bound.
struct Bounded {
  double value = 0, bound = 0;  // the largest absolute value, and the bound
};

class Bounds : public ::testing::Test {
 protected:
  Bounded Run(const Graph& graph, const std::vector<float>& x) {
    Rewrite rewrite(graph);
    for (ValueId id = 0; id < graph.size(); ++id) rewrite.Copy(id);
    F8Bounds bounds(rewrite);
    const Value bound = bounds.Of(graph.outputs()[0].value);
    EXPECT_GE(bound.id, 0);
    rewrite.builder().Output("bound", bound);
    const Graph both = std::move(rewrite).Finish().value();
    testing::Leaves leaves = testing::RandomLeaves(both, /*seed=*/3);
    const Buffer input = Buffer::Allocate(DType::kF32, leaves.inputs[0].shape());
    std::copy(x.begin(), x.end(), input.as<float>().begin());
    const std::vector<Buffer> outputs = Runs("net", leaves.weights, {input})(both);
    Bounded result;
    for (const double value : testing::ToDoubles(outputs[1])) {
      result.value = std::max(result.value, std::abs(value));
    }
    result.bound = testing::ToDoubles(outputs[0])[0];
    return result;
  }
};

// A layer norm comes closest to its bound for one element among zeros.
TEST_F(Bounds, OfALayerNormIsReachedButForItsSlack) {
  GraphBuilder b;
  b.Output("y", NormOf(b, b.Input("x", DType::kF32, {1, kChannels}, Rate::kStep), "norm"));
  const Graph graph = std::move(b).Build().value();
  double closest = 0;
  for (int64_t at = 0; at < kChannels; ++at) {
    for (const float size : {1000.f, -1000.f}) {
      std::vector<float> x(kChannels);
      x[at] = size;
      const Bounded found = Run(graph, x);
      EXPECT_LE(found.value * F8Bounds::kSlack, found.bound * 1.0001);
      closest = std::max(closest, found.value / found.bound);
    }
  }
  EXPECT_GT(closest * F8Bounds::kSlack, 0.99);
}

TEST_F(Bounds, OfProductsHoldForAnything) {
  const auto attention = [](GraphBuilder& b, Value normed) {
    const Value v = LinearOf(b, normed, "to_v", kChannels);
    return b.Attention(v, v, v, {});
  };
  const auto geglu = [](GraphBuilder& b, Value normed) {
    return b.Geglu(LinearOf(b, normed, "gated", 2 * kHidden));
  };
  std::mt19937 random(5);
  std::normal_distribution<float> normal;
  for (const auto& write :
       std::vector<std::function<Value(GraphBuilder&, Value)>>{attention, geglu}) {
    GraphBuilder b;
    const Value x = b.Input("x", DType::kF32, {1, 1, kChannels}, Rate::kStep);
    b.Output("y", write(b, NormOf(b, x, "norm")));
    const Graph graph = std::move(b).Build().value();
    double closest = 0;
    for (int round = 0; round < 300; ++round) {
      std::vector<float> values(kChannels);
      for (float& value : values) value = std::pow(normal(random), 3.0f);
      const Bounded found = Run(graph, values);
      EXPECT_LE(found.value * F8Bounds::kSlack, found.bound);
      closest = std::max(closest, found.value / found.bound);
    }
    EXPECT_GT(closest, 0.03);
  }
}

TEST_F(Bounds, OfOtherThingsAreNone) {
  GraphBuilder b;
  const Value x = b.Input("x", DType::kF32, {1, 1, kChannels}, Rate::kStep);
  const Value gamma = b.Input("gamma", DType::kF32, {kChannels}, Rate::kStep);
  const Value given = b.LayerNorm(x, gamma, gamma, 1e-5f);
  const Value raw = LinearOf(b, x, "raw", kChannels);
  b.Output("given", given);
  b.Output("attention", b.Attention(raw, raw, raw, {}));
  b.Output("geglu", b.Geglu(raw));
  b.Output("x", x);
  const Graph graph = std::move(b).Build().value();
  Rewrite rewrite(graph);
  for (ValueId id = 0; id < graph.size(); ++id) rewrite.Copy(id);
  F8Bounds bounds(rewrite);
  for (const graph::Output& output : graph.outputs()) {
    EXPECT_LT(bounds.Of(output.value).id, 0) << output.name;
  }
}

}  // namespace
}  // namespace latentd::passes
