#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "absl/strings/str_cat.h"
#include "core/graph/graph_builder.h"
#include "core/graph/text.h"
#include "core/graph/verifier.h"
#include "core/passes/epilogues.h"
#include "core/passes/group_norm_silu.h"
#include "core/passes/hoist_residual.h"
#include "core/passes/linear_geglu.h"
#include "core/passes/upsample_conv2d.h"
#include "tests/core/passes/networks.h"
#include "tests/support/status_matchers.h"

namespace latentd::passes {
namespace {

using graph::DType;
using graph::Graph;
using graph::GraphBuilder;
using graph::Op;
using graph::Rate;
using graph::Value;
using ::testing::ElementsAre;
using ::testing::IsEmpty;

using Pass = absl::StatusOr<Graph> (*)(const Graph&, const graph::Target&);

Graph Fused(Pass pass, GraphBuilder b) {
  const Graph result = *pass(*std::move(b).Build(), EagerTarget());
  EXPECT_OK(Verify(result));
  return result;
}

class Fusing : public ::testing::Test {
 protected:
  Value Linear(Value x, const std::string& name, int64_t features = 4) {
    return b.Linear(x, b.Weight(name, {features, b.shape(x)[-1]}),
                    b.Weight(name + "b", {features}));
  }
  Value Norm(Value x) {
    return b.GroupNorm(x, b.Weight("g", {4}), b.Weight("beta", {4}), {.groups = 2});
  }

  GraphBuilder b;
  Value x = b.Input("x", DType::kF32, {2, 4}, Rate::kStep);
  Value image = b.Input("image", DType::kF32, {2, 4, 3, 3}, Rate::kStep);
};

TEST_F(Fusing, TakesResidualAndActivationIntoALinear) {
  const Value y = b.Add(b.Input("residual", DType::kF32, {2, 4}, Rate::kStep), Linear(x, "w"));
  b.Output("y", b.Relu(y));
  const Graph result = Fused(FuseEpilogues, std::move(b));
  ASSERT_THAT(FusedKinds(result), ElementsAre("linear_epilogue"));
  const graph::Node& fused = result.node(result.Select(Op::kFused)[0]);
  EXPECT_EQ(ToText(*std::get<graph::FusedAttributes>(fused.attributes).body), R"(latentd graph 1
%0 = input "0" rate=step : f32[2,4]
%1 = input "1" rate=step : f32[4,4]
%2 = input "2" rate=step : f32[4]
%3 = linear(%0, %1, %2) : f32[2,4]
%4 = input "3" rate=step : f32[2,4]
%5 = add(%4, %3) : f32[2,4]
%6 = relu(%5) : f32[2,4]
output "result" = %6
)");
  EXPECT_EQ(Count(result, Op::kLinear) + Count(result, Op::kAdd) + Count(result, Op::kRelu), 0);
}

TEST_F(Fusing, TakesAnActivationAloneAndAResidualThatIsTheOperand) {
  b.Output("silu", b.Silu(Linear(x, "a")));
  const Value conv = b.Conv2d(image, b.Weight("c", {4, 4, 1, 1}), graph::kNone, {});
  b.Output("residual", b.Add(conv, image));
  const Graph result = Fused(FuseEpilogues, std::move(b));
  EXPECT_THAT(FusedKinds(result), ElementsAre("linear_epilogue", "conv2d_epilogue"));
  EXPECT_EQ(result.node(result.Select(Op::kFused)[1]).operands.size(), 2u);
}

TEST_F(Fusing, GivesTheAdditionOfTwoProductsToTheLaterOne) {
  const Value shortcut = Linear(x, "shortcut");
  const Value body = Linear(b.Silu(x), "body");
  b.Output("y", b.Add(shortcut, body));
  const Graph result = Fused(FuseEpilogues, std::move(b));
  EXPECT_THAT(FusedKinds(result), ElementsAre("linear_epilogue"));
  EXPECT_EQ(Count(result, Op::kLinear), 1);
  EXPECT_EQ(result.node(result.outputs()[0].value).op, Op::kFused);
}

TEST_F(Fusing, LeavesAProductThatSomethingElseReads) {
  const Value y = Linear(x, "w");
  b.Output("y", y);
  b.Output("z", b.Silu(y));
  EXPECT_THAT(FusedKinds(Fused(FuseEpilogues, std::move(b))), IsEmpty());
}

TEST_F(Fusing, LeavesBroadcastAdditionsAndOtherActivations) {
  b.Output("y", b.Add(Linear(x, "w"), b.Weight("row", {4})));
  b.Output("z", b.Tanh(Linear(x, "v")));
  EXPECT_THAT(FusedKinds(Fused(FuseEpilogues, std::move(b))), IsEmpty());
}

TEST_F(Fusing, LeavesRecipesPrimitive) {
  b.Output("y", b.Mul(b.Silu(b.Linear(b.Weight("a", {4, 4}), b.Weight("w", {4, 4}))), b.Scalar(1)));
  EXPECT_THAT(FusedKinds(Fused(FuseEpilogues, std::move(b))), IsEmpty());
}

TEST_F(Fusing, LeavesKindsThatTheTargetDoesNotRun) {
  b.Output("y", b.Silu(Linear(x, "w")));
  b.Output("z", b.Silu(b.Conv2d(image, b.Weight("c", {4, 4, 1, 1}), graph::kNone, {})));
  const Graph graph = *std::move(b).Build();
  graph::Target target{.fused = {graph::kConv2dEpilogue}};
  ASSERT_OK_AND_ASSIGN(const Graph result, FuseEpilogues(graph, target));
  EXPECT_THAT(FusedKinds(result), ElementsAre("conv2d_epilogue"));
}

TEST_F(Fusing, ReachesAResidualBehindAReshapeOnEitherSide) {
  const Value pixels = b.Input("pixels", DType::kF32, {2, 3, 3, 4}, Rate::kStep);
  const Value tokens = b.Input("tokens", DType::kF32, {2, 9, 4}, Rate::kStep);
  b.Output("y", b.Add(pixels, b.Reshape(Linear(tokens, "w"), {2, 3, 3, 4})));
  b.Output("z", b.Add(b.Reshape(Linear(tokens, "v"), {2, 3, 3, 4}), pixels));
  const Graph hoisted = Fused(HoistResidual, std::move(b));
  ASSERT_OK_AND_ASSIGN(const Graph result, FuseEpilogues(hoisted, EagerTarget()));
  EXPECT_THAT(FusedKinds(result), ElementsAre("linear_epilogue", "linear_epilogue"));
  EXPECT_EQ(result.node(result.outputs()[0].value).shape, (graph::Shape{2, 3, 3, 4}));
}

TEST_F(Fusing, TakesTheTimeEmbeddingIntoTheGroupNorm) {
  const Value shift = b.Input("shift", DType::kF32, {2, 4, 1, 1}, Rate::kStep);
  b.Output("y", b.Silu(Norm(b.Add(image, shift))));
  const Graph result = Fused(FuseGroupNormSilu, std::move(b));
  EXPECT_THAT(FusedKinds(result), ElementsAre("group_norm_silu"));
  EXPECT_EQ(Count(result, Op::kAdd) + Count(result, Op::kGroupNorm) + Count(result, Op::kSilu), 0);
}

TEST_F(Fusing, LeavesAnAdditionThatIsNotPerChannelOutOfTheGroupNorm) {
  const Value other = b.Input("other", DType::kF32, {2, 4, 3, 3}, Rate::kStep);
  b.Output("y", b.Silu(Norm(b.Add(image, other))));
  const Graph result = Fused(FuseGroupNormSilu, std::move(b));
  EXPECT_THAT(FusedKinds(result), ElementsAre("group_norm_silu"));
  EXPECT_EQ(Count(result, Op::kAdd), 1);
}

TEST_F(Fusing, LeavesAnAdditionThatSomethingElseReads) {
  const Value sum = b.Add(image, b.Input("shift", DType::kF32, {2, 4, 1, 1}, Rate::kStep));
  b.Output("y", b.Silu(Norm(sum)));
  b.Output("sum", sum);
  const Graph result = Fused(FuseGroupNormSilu, std::move(b));
  EXPECT_THAT(FusedKinds(result), ElementsAre("group_norm_silu"));
  EXPECT_EQ(Count(result, Op::kAdd), 1);
}

TEST_F(Fusing, LeavesAGroupNormWithoutSilu) {
  b.Output("y", Norm(image));
  EXPECT_THAT(FusedKinds(Fused(FuseGroupNormSilu, std::move(b))), IsEmpty());
}

TEST_F(Fusing, TakesGegluIntoTheLinearBeforeIt) {
  b.Output("y", b.Geglu(Linear(x, "w", 8)));
  const Graph result = Fused(FuseLinearGeglu, std::move(b));
  EXPECT_THAT(FusedKinds(result), ElementsAre("linear_geglu"));
  EXPECT_EQ(Count(result, Op::kGeglu), 0);
}

TEST_F(Fusing, TakesGegluIntoALinearWithAPathBesideIt) {
  const auto input = [&](const char* name, const graph::Shape& shape) {
    return b.Input(name, DType::kF32, shape, Rate::kStep);
  };
  const graph::LowRankOperands path = {.down = input("down", {2, 3, 4}),
                                       .up = input("up", {2, 8, 3}),
                                       .slot = b.Input("slot", DType::kI64, {2}, Rate::kStep),
                                       .scale = input("scale", {2, 3})};
  b.Output("y", b.Geglu(b.LowRank(Linear(x, "w", 8), x, path)));
  b.Output("of another x", b.Geglu(b.LowRank(Linear(x, "v", 8), input("other", {2, 4}), path)));
  const Graph result = Fused(FuseLinearGeglu, std::move(b));
  EXPECT_THAT(FusedKinds(result), ElementsAre("linear_geglu"));
  EXPECT_EQ(Count(result, Op::kGeglu), 1);
  EXPECT_EQ(Count(result, Op::kLowRank), 1);
}

TEST_F(Fusing, TakesAnUpsamplingToTwiceTheSizeIntoTheConvolutionAfterIt) {
  const auto upsampled = [&](int64_t height, int64_t width, int64_t kernel, int64_t pad) {
    const std::string name = absl::StrCat("u", height, width, kernel);
    const Value weight = b.Weight(name, {4, 4, kernel, kernel});
    return b.Conv2d(b.UpsampleNearest(image, height, width), weight, graph::kNone,
                    {.padding = {pad, pad, pad, pad}});
  };
  b.Output("fits", upsampled(6, 6, 3, 1));
  b.Output("other height", upsampled(5, 6, 3, 1));
  b.Output("other width", upsampled(6, 9, 3, 1));
  b.Output("other kernel", upsampled(6, 6, 1, 0));
  const Graph result = Fused(FuseUpsampleConv2d, std::move(b));
  EXPECT_THAT(FusedKinds(result), ElementsAre("upsample_conv2d"));
  EXPECT_EQ(result.node(result.Select(Op::kFused)[0]).shape, (graph::Shape{2, 4, 6, 6}));
  EXPECT_EQ(Count(result, Op::kUpsampleNearest), 3);
}

TEST_F(Fusing, LeavesConvolutionsOfAnUpsamplingThatOtherPhasesWouldGive) {
  const Value twice = b.UpsampleNearest(image, 6, 6);
  const Value weight = b.Weight("w", {4, 4, 3, 3});
  b.Output("shared", b.Conv2d(twice, weight, graph::kNone, {.padding = {1, 1, 1, 1}}));
  b.Output("padding", b.Conv2d(twice, weight, graph::kNone, {.padding = {0, 0, 1, 1}}));
  b.Output("stride", b.Conv2d(b.UpsampleNearest(image, 6, 6), weight, graph::kNone,
                              {.stride = 2, .padding = {1, 1, 1, 1}}));
  const Value made = b.Input("made", DType::kF32, {4, 4, 3, 3}, Rate::kStep);
  b.Output("not a weight",
           b.Conv2d(b.UpsampleNearest(image, 6, 6), made, graph::kNone, {.padding = {1, 1, 1, 1}}));
  EXPECT_THAT(FusedKinds(Fused(FuseUpsampleConv2d, std::move(b))), IsEmpty());
}

}  // namespace
}  // namespace latentd::passes
