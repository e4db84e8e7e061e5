#include "core/passes/upsample_bias.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "core/graph/text.h"
#include "core/graph/verifier.h"
#include "core/passes/pipeline.h"
#include "core/passes/precision.h"
#include "tests/core/passes/equivalence.h"
#include "tests/core/passes/networks.h"
#include "tests/support/status_matchers.h"

namespace latentd::passes {
namespace {

using graph::DType;
using graph::Graph;
using graph::GraphBuilder;
using graph::kNone;
using graph::Layout;
using graph::Node;
using graph::Op;
using graph::Rate;
using graph::Shape;
using graph::Value;
using graph::ValueId;
using ::testing::Each;

constexpr int64_t kRows = 2, kChannels = 8, kSide = 3;

enum class Bias { kNone, kWeight };

// An image that a convolution has made of its upsampling, and who may read it.
class UpsampleBias : public ::testing::TestWithParam<Layout> {
 protected:
  Value Input(const std::string& name, int64_t side) {
    const bool nchw = GetParam() == Layout::kNchw;
    return b.Input(name, DType::kF32,
                   nchw ? Shape{kRows, kChannels, side, side} : Shape{kRows, side, side, kChannels},
                   Rate::kStep);
  }
  static Layout OtherLayout() {
    return GetParam() == Layout::kNchw ? Layout::kNhwc : Layout::kNchw;
  }
  Value Weight(const std::string& name, Shape shape) {
    return b.Weight("net/" + name, std::move(shape));
  }
  Value Conv(Value x, const std::string& name, int64_t size, Bias bias) {
    const int64_t pad = size / 2;
    return b.Conv2d(x, Weight(name, {kChannels, kChannels, size, size}),
                    bias == Bias::kWeight ? Weight(name + "b", {kChannels}) : kNone,
                    {.padding = {pad, pad, pad, pad}, .layout = GetParam()});
  }
  Value Upsampled(const std::string& name, Bias bias = Bias::kWeight) {
    const Value x = Conv(Input(name + "x", kSide), name + "in", 1, Bias::kWeight);
    return Conv(b.UpsampleNearest(x, 2 * kSide, 2 * kSide, GetParam()), name, 3, bias);
  }
  // One whose bias moves, unless another reader than this keeps it.
  Value Movable(const std::string& name = "up") {
    const Value image = Upsampled(name);
    b.Output(name + " normed", b.Silu(Norm(image)));
    return image;
  }
  Value Norm(Value x) {
    return b.GroupNorm(x, Weight("gamma", {kChannels}), Weight("beta", {kChannels}),
                       {.groups = 2, .layout = GetParam()});
  }
  Value Other(const std::string& name, int64_t size, Bias bias) {
    return Conv(Input(name + "x", 2 * kSide), name, size, bias);
  }

  // The pass's result: the numbers stay, and no convolution of an upsampling has a bias.
  Graph Moved() {
    const Graph graph = *std::move(b).Build();
    Graph result = MoveUpsampleBias(graph, EagerTarget(GetParam())).value();
    EXPECT_OK(Verify(result));
    Runs run(graph);
    EXPECT_LE(Distance(run(graph), run(result)), 1e-5);
    EXPECT_THAT(OperandsOfUpsampled(result), Each(2u));
    return result;
  }
  // The pass changes nothing.
  void ExpectKept(const graph::Target& target = EagerTarget(GetParam())) {
    const Graph graph = *std::move(b).Build();
    ASSERT_OK_AND_ASSIGN(const Graph result, MoveUpsampleBias(graph, target));
    EXPECT_EQ(ToText(result), ToText(graph));
  }

  static std::vector<size_t> OperandsOfUpsampled(const Graph& graph) {
    std::vector<size_t> operands;
    for (ValueId id : graph.Select(Op::kConv2d)) {
      const Node& node = graph.node(id);
      if (graph.node(node.operands[0]).op == Op::kUpsampleNearest) {
        operands.push_back(node.operands.size());
      }
    }
    EXPECT_FALSE(operands.empty());
    return operands;
  }

  GraphBuilder b;
};

INSTANTIATE_TEST_SUITE_P(Layouts, UpsampleBias, ::testing::Values(Layout::kNchw, Layout::kNhwc),
                         [](const auto& info) {
                           return info.param == Layout::kNchw ? "Nchw" : "Nhwc";
                         });

TEST_P(UpsampleBias, IsAddedBeforeTheGroupNormThatReadsTheImage) {
  Movable();
  const Graph result = Moved();
  const Node& norm = result.node(result.Select(Op::kGroupNorm)[0]);
  const Node& sum = result.node(norm.operands[0]);
  ASSERT_EQ(sum.op, Op::kAdd);
  EXPECT_EQ(result.node(sum.operands[1]).shape, GetParam() == Layout::kNchw
                                                    ? (Shape{kRows, kChannels, 1, 1})
                                                    : (Shape{kRows, 1, 1, kChannels}));
  EXPECT_EQ(result.node(sum.operands[1]).rate, Rate::kCheckpoint);
}

TEST_P(UpsampleBias, LeavesOnlyWhatIsFused) {
  Movable();
  const Graph graph = *std::move(b).Build();
  ASSERT_OK_AND_ASSIGN(const Graph result, RunPasses(graph, EagerTarget(GetParam())));
  EXPECT_THAT(FusedKinds(result), ::testing::ElementsAre("upsample_conv2d", "group_norm_silu"));
  EXPECT_EQ(Count(result, Op::kAdd), 0);
  ASSERT_OK_AND_ASSIGN(const Graph twice, RunPasses(result, EagerTarget(GetParam())));
  EXPECT_EQ(ToText(twice), ToText(result));
}

TEST_P(UpsampleBias, GoesThroughAConvolutionOf1x1IntoItsBias) {
  b.Output("y", Conv(Movable(), "shortcut", 1, Bias::kWeight));
  const Graph result = Moved();
  ASSERT_EQ(Count(result, Op::kLinear), 1);
  EXPECT_EQ(result.node(result.Select(Op::kLinear)[0]).rate, Rate::kCheckpoint);
}

TEST_P(UpsampleBias, BecomesTheBiasOfAConvolutionOf1x1ThatHasNone) {
  b.Output("y", Conv(Movable(), "shortcut", 1, Bias::kNone));
  const Graph result = Moved();
  EXPECT_EQ(Count(result, Op::kLinear), 1);
}

TEST_P(UpsampleBias, GoesIntoTheBiasOfAConvolutionThatIsAddedOnEitherSide) {
  b.Output("first", b.Add(Movable("a"), Other("c", 3, Bias::kWeight)));
  b.Output("second", b.Add(Other("d", 3, Bias::kWeight), Movable("b")));
  const Graph result = Moved();
  int of_weights = 0;
  for (ValueId id : result.Select(Op::kAdd)) {
    of_weights += result.node(id).rate == Rate::kCheckpoint;
  }
  EXPECT_EQ(of_weights, 2);
}

TEST_P(UpsampleBias, BecomesTheBiasOfAnAddedConvolutionThatHasNone) {
  b.Output("y", b.Add(Movable(), Other("c", 3, Bias::kNone)));
  const Graph result = Moved();
  for (ValueId id : result.Select(Op::kConv2d)) {
    const bool upsampled = result.node(result.node(id).operands[0]).op == Op::kUpsampleNearest;
    EXPECT_EQ(result.node(id).operands.size(), upsampled ? 2u : 3u);
  }
}

// A convolution may come before the one whose bias it gets, and get those of two.
TEST_P(UpsampleBias, GoesToWhoeverComesBeforeAndBesideAnother) {
  const Value early = Other("early", 3, Bias::kWeight);
  const Value image = Movable("a");
  b.Output("y", b.Add(Conv(image, "shortcut", 1, Bias::kWeight), Movable("b")));
  b.Output("z", b.Add(early, image));
  Moved();
}

TEST_P(UpsampleBias, GoesBothWaysIntoAConvolutionOfTheImageThatIsAddedToIt) {
  const Value image = Movable();
  b.Output("y", b.Add(Conv(image, "shortcut", 1, Bias::kWeight), image));
  Moved();
}

TEST_P(UpsampleBias, IsSummedInF32AndReadInTheDTypeOfTheConvolution) {
  const Value image = Movable();
  b.Output("y", b.Add(Conv(image, "shortcut", 1, Bias::kWeight), Input("r", 2 * kSide)));
  b.Output("z", b.Add(image, Other("c", 3, Bias::kWeight)));
  const Graph graph = *std::move(b).Build();
  ASSERT_OK_AND_ASSIGN(const Graph low, ChoosePrecision(graph, {DType::kBF16}));
  ASSERT_OK_AND_ASSIGN(const Graph result, MoveUpsampleBias(low, EagerTarget(GetParam())));
  EXPECT_OK(Verify(result));
  EXPECT_THAT(OperandsOfUpsampled(result), Each(2u));
  for (ValueId id = 0; id < result.size(); ++id) {
    const Node& node = result.node(id);
    if (node.op == Op::kConv2d) EXPECT_EQ(node.dtype, DType::kBF16);
    const bool sum = node.op == Op::kAdd || node.op == Op::kLinear;
    if (sum && node.rate == Rate::kCheckpoint) EXPECT_EQ(node.dtype, DType::kF32);
  }
  Runs run(graph);
  const auto expected = run(graph);
  const double before = Distance(expected, run(low));
  EXPECT_LE(Distance(expected, run(result)), 1.5 * before);
}

TEST_P(UpsampleBias, StaysWhereTheImageIsJoinedWithAnother) {
  const int64_t axis = GetParam() == Layout::kNchw ? 1 : 3;
  b.Output("y", b.Concat({Movable(), Input("skip", 2 * kSide)}, axis));
  ExpectKept();
}

TEST_P(UpsampleBias, StaysWhereTheImageIsAnOutput) {
  b.Output("y", Movable());
  ExpectKept();
}

TEST_P(UpsampleBias, StaysWhereSomethingElseReadsTheImage) {
  b.Output("y", b.Silu(Movable()));
  ExpectKept();
}

TEST_P(UpsampleBias, StaysWithoutABias) {
  const Value image = Upsampled("up", Bias::kNone);
  b.Output("y", b.Silu(Norm(image)));
  ExpectKept();
}

TEST_P(UpsampleBias, StaysWhereNoSiluFollowsTheGroupNorm) {
  b.Output("y", Norm(Movable()));
  ExpectKept();
}

TEST_P(UpsampleBias, StaysWhereSomethingElseReadsTheGroupNorm) {
  const Value normed = Norm(Movable());
  b.Output("y", b.Silu(normed));
  b.Output("z", normed);
  ExpectKept();
}

TEST_P(UpsampleBias, StaysWhereAConvolutionOfTheImageIsNotOf1x1) {
  b.Output("y", Conv(Movable(), "c", 3, Bias::kWeight));
  ExpectKept();
}

TEST_P(UpsampleBias, StaysWhereAConvolutionThatDoesNotPadIsNotOf1x1) {
  const Value weight = Weight("c", {kChannels, kChannels, 3, 3});
  b.Output("y", b.Conv2d(Movable(), weight, kNone, {.layout = GetParam()}));
  ExpectKept();
}

TEST_P(UpsampleBias, StaysWhereAConvolutionOf1x1Pads) {
  const Value weight = Weight("c", {kChannels, kChannels, 1, 1});
  b.Output("y",
           b.Conv2d(Movable(), weight, kNone, {.padding = {1, 0, 0, 0}, .layout = GetParam()}));
  ExpectKept();
}

TEST_P(UpsampleBias, StaysWhereTheWeightOfAConvolutionOf1x1IsNone) {
  const Value made = b.Input("w", DType::kF32, {kChannels, kChannels, 1, 1}, Rate::kStep);
  b.Output("y", b.Conv2d(Movable(), made, kNone, {.layout = GetParam()}));
  ExpectKept();
}

TEST_P(UpsampleBias, StaysWhereTheBiasOfAConvolutionOf1x1IsNoWeight) {
  const Value bias = b.Input("bias", DType::kF32, {kChannels}, Rate::kStep);
  const Value weight = Weight("c", {kChannels, kChannels, 1, 1});
  b.Output("y", b.Conv2d(Movable(), weight, bias, {.layout = GetParam()}));
  ExpectKept();
}

TEST_P(UpsampleBias, StaysWhereTheBiasOfTheAddedConvolutionIsNoWeight) {
  const Value bias = b.Input("bias", DType::kF32, {kChannels}, Rate::kStep);
  const Value weight = Weight("c", {kChannels, kChannels, 1, 1});
  b.Output("y",
           b.Add(Movable(), b.Conv2d(Input("x", 2 * kSide), weight, bias, {.layout = GetParam()})));
  ExpectKept();
}

TEST_P(UpsampleBias, StaysWhereAGroupNormReadsTheImageInAnotherLayout) {
  const Value normed = b.GroupNorm(Movable(), Weight("g", {2 * kSide}), Weight("h", {2 * kSide}),
                                   {.groups = 2, .layout = OtherLayout()});
  b.Output("y", b.Silu(normed));
  ExpectKept();
}

TEST_P(UpsampleBias, StaysWhereAConvolutionOf1x1ReadsTheImageInAnotherLayout) {
  const Value weight = Weight("c", {2 * kSide, 2 * kSide, 1, 1});
  b.Output("y", b.Conv2d(Movable(), weight, kNone, {.layout = OtherLayout()}));
  ExpectKept();
}

TEST_P(UpsampleBias, StaysWhereTheAddedConvolutionIsInAnotherLayout) {
  const Value weight = Weight("c", {2 * kSide, 2 * kSide, 1, 1});
  const Value conv = b.Conv2d(Input("x", 2 * kSide), weight, kNone, {.layout = OtherLayout()});
  b.Output("y", b.Add(Movable(), conv));
  ExpectKept();
}

TEST_P(UpsampleBias, StaysWhereSomethingElseReadsTheAddedConvolution) {
  const Value conv = Other("c", 3, Bias::kWeight);
  b.Output("y", b.Add(Movable(), conv));
  b.Output("z", b.Silu(conv));
  ExpectKept();
}

TEST_P(UpsampleBias, StaysWhereWhatIsAddedIsNoConvolution) {
  b.Output("y", b.Add(Movable(), Input("r", 2 * kSide)));
  ExpectKept();
}

TEST_P(UpsampleBias, StaysWhereAnImageLikeItIsAdded) {
  const Value other = Upsampled("other");
  b.Output("y", b.Add(Movable(), other));
  ExpectKept();
}

TEST_P(UpsampleBias, StaysWhereTheImageIsAddedToItself) {
  const Value image = Movable();
  b.Output("y", b.Add(image, image));
  ExpectKept();
}

TEST_P(UpsampleBias, StaysWhereTheBiasIsNoWeight) {
  const Value x = Input("x", kSide);
  const Value bias = b.Input("bias", DType::kF32, {kChannels}, Rate::kStep);
  const Value image = b.Conv2d(b.UpsampleNearest(x, 2 * kSide, 2 * kSide, GetParam()),
                               Weight("up", {kChannels, kChannels, 3, 3}), bias,
                               {.padding = {1, 1, 1, 1}, .layout = GetParam()});
  b.Output("y", b.Silu(Norm(image)));
  ExpectKept();
}

TEST_P(UpsampleBias, StaysWhereTheConvolutionIsNotFused) {
  const Value x = Input("x", kSide);
  const Value image =
      Conv(b.UpsampleNearest(x, 3 * kSide, 2 * kSide, GetParam()), "up", 3, Bias::kWeight);
  b.Output("y", b.Silu(Norm(image)));
  ExpectKept();
}

TEST_P(UpsampleBias, StaysForATargetThatDoesNotFuseTheConvolution) {
  Movable();
  graph::Target target = EagerTarget(GetParam());
  target.fused.erase(graph::kUpsampleConv2d);
  ExpectKept(target);
}

TEST_P(UpsampleBias, StaysForATargetWhoseConvolutionAddsIt) {
  Movable();
  graph::Target target = EagerTarget(GetParam());
  target.moves_upsample_bias = false;
  ExpectKept(target);
}

TEST_P(UpsampleBias, StaysForATargetThatDoesNotFuseTheGroupNorm) {
  Movable();
  graph::Target target = EagerTarget(GetParam());
  target.fused.erase(graph::kGroupNormSilu);
  ExpectKept(target);
}

}  // namespace
}  // namespace latentd::passes
