#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "core/backends/cpu/binding/kernel_rules.h"
#include "core/backends/lowering/lowering.h"
#include "core/graph/graph_builder.h"
#include "tests/conformance/op_cases.h"
#include "tests/support/status_matchers.h"

namespace latentd::backends::cpu {
namespace {

using device::DType;
using device::Shape;
using graph::GraphBuilder;
using graph::Layout;
using graph::Rate;
using graph::Value;
using ::testing::ElementsAre;

// The kernels of a graph's instructions in order.
std::vector<Kernel> Kernels(GraphBuilder b) {
  const graph::Graph graph = std::move(b).Build().value();
  const Program program = lowering::Lower(graph, graph::ExtractRecipes(graph),
                                          CpuKernelRules({&KernelsOfThisMachine(), 1}));
  std::vector<Kernel> kernels;
  for (const Instruction& instruction : program.instructions) {
    kernels.push_back(instruction.kernel);
  }
  return kernels;
}

Value Input(GraphBuilder& b, Shape shape) {
  return b.Input("x", DType::kF32, std::move(shape), Rate::kStep);
}

TEST(Lower, MakesAViewOfAReshapeAndWritesTheOutputInPlace) {
  GraphBuilder b;
  b.Output("y", b.Reshape(b.Silu(b.Reshape(Input(b, {2, 6}), {3, 4})), {12}));
  EXPECT_THAT(Kernels(std::move(b)), ElementsAre(Kernel::kUnary));
}

TEST(Lower, CopiesASliceOnlyForAReaderThatWantsItDense) {
  GraphBuilder b;
  const Value part = b.Slice(Input(b, {2, 6}), 1, 0, 3);
  b.Output("sum", b.Add(part, part));
  b.Output("silu", b.Silu(part));
  b.Output("relu", b.Relu(part));
  EXPECT_THAT(Kernels(std::move(b)),
              ElementsAre(Kernel::kBinary, Kernel::kCopy, Kernel::kUnary, Kernel::kUnary));
}

TEST(Lower, CopiesWhatAConcatenationReadsInAnotherShapeOnce) {
  GraphBuilder b;
  const Value x = Input(b, {1, 5, 8});
  std::vector<Value> parts;
  for (int64_t begin : {0, 4}) {
    const Value heads = b.Reshape(b.Slice(x, 2, begin, begin + 4), {1, 5, 2, 2});
    parts.push_back(b.Reshape(b.Permute(heads, {0, 2, 1, 3}), {1, 20}));
  }
  b.Output("y", b.Concat(parts, 1));
  EXPECT_THAT(Kernels(std::move(b)), ElementsAre(Kernel::kCopy, Kernel::kCopy));
}

TEST(Lower, ReadsMergedQueriesKeysAndValuesWhereTheyAre) {
  GraphBuilder b;
  const Value qkv = Input(b, {1, 5, 24});
  b.Output("y", b.Attention(b.Slice(qkv, 2, 0, 8), b.Slice(qkv, 2, 8, 16), b.Slice(qkv, 2, 16, 24),
                            {1, 1.0f, false}));
  EXPECT_THAT(Kernels(std::move(b)), ElementsAre(Kernel::kAttention));
}

TEST(Lower, RunsConvolutionsInARowWithoutMovingTheImageBetweenThem) {
  GraphBuilder b;
  Value x = Input(b, {1, 4, 6, 6});
  for (int i = 0; i < 3; ++i) {
    x = b.Conv2d(x, b.Weight("net/w", {4, 4, 1, 1}), graph::kNone, {.layout = Layout::kNchw});
  }
  b.Output("y", x);
  EXPECT_THAT(Kernels(std::move(b)),
              ElementsAre(Kernel::kCopy, Kernel::kConvolution, Kernel::kConvolution,
                          Kernel::kConvolution, Kernel::kCopy));
}

TEST(Lower, LeavesWhatIsOfTheCheckpointRateToRecipes) {
  GraphBuilder b;
  const Value weight = b.Concat({b.Weight("net/a", {2, 3}), b.Weight("net/b", {2, 3})}, 0);
  b.Output("y", b.Linear(Input(b, {1, 3}), b.Mul(weight, b.Scalar(2))));
  EXPECT_THAT(Kernels(std::move(b)), ElementsAre(Kernel::kLinear));
}

TEST(Lower, CopiesAnOutputThatNoInstructionMakes) {
  GraphBuilder b;
  const Value x = Input(b, {2, 3});
  b.Output("same", x);
  b.Output("weight", b.Weight("net/w", {2}));
  const Value y = b.Silu(x);
  b.Output("first", y);
  b.Output("second", y);
  EXPECT_THAT(Kernels(std::move(b)),
              ElementsAre(Kernel::kUnary, Kernel::kCopy, Kernel::kCopy, Kernel::kCopy));
}

// How many instructions the case of that name becomes.
size_t InstructionsOf(const std::string& name) {
  for (const testing::OpCase& c : testing::FusedCases()) {
    if (c.name != name) continue;
    GraphBuilder b;
    c.build(b);
    return Kernels(std::move(b)).size();
  }
  ADD_FAILURE() << "no case " << name;
  return 0;
}

TEST(Lower, RunsAKnownFusedNodeAsOneInstruction) {
  for (const char* name :
       {"conv2d_epilogue_bias_residual_silu_nhwc", "conv2d_epilogue_residual_nhwc",
        "linear_epilogue_bias_gelu_rank2", "linear_epilogue_bias_residual_rank3",
        "linear_epilogue_residual_first", "linear_geglu_40_bias", "group_norm_silu_added_nhwc_64",
        "group_norm_silu_added_weight_nhwc_24", "group_norm_silu_nchw_24", "upsample_conv2d_odd"}) {
    EXPECT_EQ(InstructionsOf(name), 1u) << name;
  }
}

TEST(Lower, RunsTheBodyOfAFusedNodeThatNoKernelFits) {
  EXPECT_EQ(InstructionsOf("kind_that_no_backend_knows"), 4u);
  EXPECT_EQ(InstructionsOf("linear_epilogue_broadcast_residual"), 3u);
  EXPECT_EQ(InstructionsOf("conv2d_epilogue_bias_tanh_nhwc"), 2u);
  EXPECT_EQ(InstructionsOf("upsample_conv2d_three_columns"), 2u);
  EXPECT_EQ(InstructionsOf("upsample_conv2d_made_weight"), 2u);
}

}  // namespace
}  // namespace latentd::backends::cpu
