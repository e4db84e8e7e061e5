// Lowering for a backend whose kernels take what the test says.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <string>
#include <vector>

#include "core/backends/lowering/lowering.h"
#include "core/graph/graph_builder.h"
#include "core/passes/pipeline.h"
#include "tests/conformance/op_cases.h"

namespace latentd::backends::lowering {
namespace {

using graph::DType;
using graph::GraphBuilder;
using graph::Rate;
using graph::Value;
using ::testing::ElementsAre;

// The arguments of a call of RunsFused.
struct Question {
  Kernel kernel;
  DType dtype;
  bool weight_is_held;
  bool operator==(const Question&) const = default;
};

class TestRules : public KernelRules {
 public:
  bool Reads(Kernel kernel, size_t, DType dtype) const override {
    return dtype == DType::kF32 || dtype == DType::kI64 || dtype == low || kernel == Kernel::kCast;
  }
  bool RunsFused(const FusedMatch& match, DType dtype, bool weight_is_held) const override {
    questions.push_back({match.kernel, dtype, weight_is_held});
    return runs_fused;
  }

  DType low = DType::kF32;  // read as it is, beside f32
  bool runs_fused = true;
  mutable std::vector<Question> questions;
};

// The kernels of a graph's instructions in order.
std::vector<Kernel> Kernels(const graph::Graph& graph, const KernelRules& rules) {
  const Program program = Lower(graph, graph::ExtractRecipes(graph), rules);
  std::vector<Kernel> kernels;
  for (const Instruction& instruction : program.instructions) {
    kernels.push_back(instruction.kernel);
  }
  return kernels;
}

std::vector<Kernel> Kernels(GraphBuilder b, const KernelRules& rules) {
  return Kernels(std::move(b).Build().value(), rules);
}

Value Slice(GraphBuilder& b) {
  return b.Slice(b.Input("x", DType::kF32, {2, 3, 16}, Rate::kStep), 2, 0, 8);
}

Value Permute(GraphBuilder& b) {
  return b.Permute(b.Input("x", DType::kF32, {2, 8, 3}, Rate::kStep), {0, 2, 1});
}

// The kernels of one that reads a view.
std::vector<Kernel> KernelsOf(Value (*view)(GraphBuilder&), Value (*reader)(GraphBuilder&, Value)) {
  GraphBuilder b;
  b.Output("y", reader(b, view(b)));
  return Kernels(std::move(b), TestRules());
}

TEST(StridesOf, SaysWhichViewsAreCopied) {
  const auto silu = [](GraphBuilder& b, Value x) { return b.Silu(x); };
  EXPECT_THAT(KernelsOf(Slice, silu), ElementsAre(Kernel::kCopy, Kernel::kUnary));
  EXPECT_THAT(KernelsOf(Permute, silu), ElementsAre(Kernel::kCopy, Kernel::kUnary));
  const auto attention = [](GraphBuilder& b, Value x) {
    return b.Attention(x, x, x, {.heads = 1, .scale = 1});
  };
  EXPECT_THAT(KernelsOf(Slice, attention), ElementsAre(Kernel::kAttention));
  EXPECT_THAT(KernelsOf(Permute, attention), ElementsAre(Kernel::kCopy, Kernel::kAttention));
  const auto sum = [](GraphBuilder& b, Value x) { return b.Add(x, x); };
  EXPECT_THAT(KernelsOf(Slice, sum), ElementsAre(Kernel::kBinary));
  EXPECT_THAT(KernelsOf(Permute, sum), ElementsAre(Kernel::kBinary));
}

// A low-rank path beside a part of a merged linear, whose matrices and scales are parts of ports.
TEST(StridesOf, LeavesWhatALowRankPathReadsWhereItLies) {
  GraphBuilder b;
  const auto input = [&](const char* name, const graph::Shape& shape) {
    return b.Input(name, DType::kF32, shape, Rate::kStep);
  };
  const Value merged = input("merged", {2, 5, 24}), pool = input("pool", {3, 2 * (16 + 8)});
  const Value slot = b.Input("slot", DType::kI64, {2}, Rate::kStep);
  b.Output("y", b.LowRank(b.Slice(merged, 2, 8, 16), b.Slice(input("x", {2, 5, 20}), 2, 0, 16),
                          {.down = b.Reshape(b.Slice(pool, 1, 0, 32), {3, 2, 16}),
                           .up = b.Reshape(b.Slice(pool, 1, 32, 48), {3, 8, 2}),
                           .slot = slot,
                           .scale = b.Slice(input("scales", {2, 6}), 1, 2, 4)}));
  EXPECT_THAT(Kernels(std::move(b), TestRules()), ElementsAre(Kernel::kLowRank));
}

GraphBuilder SiluOfBf16() {
  GraphBuilder b;
  b.Output("y", b.Silu(b.Input("x", DType::kBF16, {2, 6}, Rate::kStep)));
  return b;
}

TEST(KernelRules, SayWhatIsConverted) {
  TestRules rules;
  EXPECT_THAT(Kernels(SiluOfBf16(), rules),
              ElementsAre(Kernel::kCast, Kernel::kUnary, Kernel::kCast));
  rules.low = DType::kBF16;
  EXPECT_THAT(Kernels(SiluOfBf16(), rules), ElementsAre(Kernel::kUnary));
}

GraphBuilder FusedCase(const std::string& name) {
  GraphBuilder b;
  for (const testing::OpCase& c : testing::FusedCases()) {
    if (c.name == name) c.build(b);
  }
  return b;
}

TEST(StridesOf, LeavesWhatAGroupNormAddsWhereItLiesIfOnlyRowsAreApart) {
  for (const char* layout : {"_nchw_24", "_nhwc_24"}) {
    const auto kernels = [&](const std::string& added) {
      return Kernels(FusedCase("group_norm_silu_added_" + added + layout), TestRules());
    };
    EXPECT_THAT(kernels("slice"), ElementsAre(Kernel::kGroupNorm));
    EXPECT_THAT(kernels("permuted"), ElementsAre(Kernel::kCopy, Kernel::kGroupNorm));
  }
}

TEST(StridesOf, WantsTheImageThatAGroupNormReadsDense) {
  GraphBuilder b;
  const Value image = b.Slice(b.Input("x", DType::kF32, {2, 6, 4, 4}, Rate::kStep), 1, 0, 4);
  b.Output("y", b.GroupNorm(image, b.Weight("net/gamma", {4}), b.Weight("net/beta", {4}),
                            {.groups = 2}));
  EXPECT_THAT(Kernels(std::move(b), TestRules()), ElementsAre(Kernel::kCopy, Kernel::kGroupNorm));
}

// An image moved by a projection of the time and normed, as in a residual block.
Value NormWithTime(GraphBuilder& b, Value image, Value time, const std::string& projection) {
  const int64_t rows = b.shape(image)[0], channels = b.shape(image)[1];
  const Value weight = b.Weight("net/" + projection, {channels, b.shape(time)[1]});
  const Value moved = b.Add(image, b.Reshape(b.Linear(time, weight), {rows, channels, 1, 1}));
  return b.Silu(b.GroupNorm(moved, b.Weight("net/gamma", {channels}),
                            b.Weight("net/beta", {channels}), {.groups = 2}));
}

TEST(StridesOf, LetsGroupNormsReadTheirPartsOfAMergedLinear) {
  GraphBuilder b;
  const Value time = b.Input("time", DType::kF32, {2, 8}, Rate::kStep);
  Value image = b.Input("image", DType::kF32, {2, 16, 3, 5}, Rate::kStep);
  for (const char* projection : {"first", "second"}) {
    image = NormWithTime(b, image, time, projection);
  }
  b.Output("y", image);
  const graph::Graph graph =
      passes::RunPasses(std::move(b).Build().value(),
                        {.fused = {graph::kGroupNormSilu}, .merge_linears = true})
          .value();
  EXPECT_THAT(Kernels(graph, TestRules()),
              ElementsAre(Kernel::kLinear, Kernel::kGroupNorm, Kernel::kGroupNorm));
}

TEST(KernelRules, SayWhichFusedNodesAreOneInstruction) {
  TestRules rules;
  EXPECT_THAT(Kernels(FusedCase("linear_geglu_40_bias"), rules), ElementsAre(Kernel::kLinearGeglu));
  EXPECT_THAT(Kernels(FusedCase("linear_geglu_path_words"), rules),
              ElementsAre(Kernel::kLinearGeglu));
  rules.runs_fused = false;
  EXPECT_THAT(Kernels(FusedCase("linear_geglu_40_bias"), rules),
              ElementsAre(Kernel::kLinear, Kernel::kGeglu));
  EXPECT_THAT(Kernels(FusedCase("linear_geglu_path_words"), rules),
              ElementsAre(Kernel::kLinear, Kernel::kLowRank, Kernel::kGeglu));
}

TEST(KernelRules, AreToldOfAWeightThatTheGraphComputesAtEachRun) {
  TestRules rules;
  Kernels(FusedCase("upsample_conv2d_odd"), rules);
  Kernels(FusedCase("upsample_conv2d_made_weight"), rules);
  EXPECT_THAT(rules.questions,
              ElementsAre(Question{Kernel::kUpsampleConvolution, DType::kF32, true},
                          Question{Kernel::kUpsampleConvolution, DType::kF32, false}));
}

}  // namespace
}  // namespace latentd::backends::lowering
