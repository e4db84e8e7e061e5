// Computation of f32 with TF32: its effect on results, and on choices and names.
#include <cuda_runtime_api.h>
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <algorithm>
#include <cmath>
#include <memory>
#include <string>
#include <utility>
#include <vector>

#include "core/backends/cuda/cuda_backend.h"
#include "core/backends/cuda/kernel_rules.h"
#include "core/backends/cuda/plan.h"
#include "core/backends/lowering/lowering.h"
#include "core/graph/graph_builder.h"
#include "tests/conformance/checks.h"
#include "tests/conformance/low_precision.h"
#include "tests/support/status_matchers.h"

namespace latentd::backends::cuda {
namespace {

using device::DType;
using ::testing::_;
using ::testing::ElementsAre;
using ::testing::HasSubstr;
using ::testing::Key;
using ::testing::Not;
using testing::StatusIs;
using ::testing::UnorderedElementsAre;

// A product of matrices of 64 by 64.
ProductShape ProductOf64(bool tf32) {
  ProductShape shape;
  shape.rows = shape.columns = shape.depth = 64;
  shape.a.pitch = shape.b.pitch = shape.result.pitch = 64;
  shape.tf32 = tf32;
  return shape;
}

TEST(Tf32Test, AProductsKeyAndPacketSaySo) {
  EXPECT_EQ(ProductOf64(true).Key(), ProductOf64(false).Key() + " tf32");
  for (bool tf32 : {false, true}) {
    ASSERT_OK_AND_ASSIGN(const TrialTask read,
                         ReadTask(Write(TrialTask{.shape = ProductOf64(tf32)})));
    EXPECT_EQ(read.shape.tf32, tf32);
  }
}

TEST(Tf32Test, AConvolutionsKeySaysSo) {
  ConvolutionShape whole = {DType::kF32, 1, 2, 3, 4, 5, 3, 3};
  EXPECT_THAT(whole.Key(), HasSubstr("convolution tf32 1x2x3x4 to 5"));
  EXPECT_TRUE(whole.tf32());
  whole.dtype = DType::kF16;
  EXPECT_THAT(whole.Key(), HasSubstr("convolution f16 1x2x3x4 to 5"));
  EXPECT_FALSE(whole.tf32());
  EXPECT_THAT((TransposedConvolutionShape{DType::kF32, 1, 2, 3, 4, 5}).Key(),
              HasSubstr("transposed convolution tf32 1x2x3x4 to 5"));
}

TEST(Tf32Test, APlansChoicesAreNoneForTheOther) {
  const auto load = [](absl::string_view algorithm) -> absl::StatusOr<std::string> {
    return std::string(algorithm);
  };
  const auto choose = []() -> absl::StatusOr<Choice> { return Choice{"another"}; };
  for (bool tf32 : {false, true}) {
    Choices of_one = {{ProductOf64(tf32).Key(), "algorithm"}};
    const Chooser looking_up = Chooser::LookingUp(of_one);
    EXPECT_OK(looking_up.Get(ProductOf64(tf32).Key(), choose, load));
    EXPECT_THAT(looking_up.Get(ProductOf64(!tf32).Key(), choose, load),
                StatusIs(absl::StatusCode::kInvalidArgument, _));
  }
}

TEST(Tf32Test, AFingerprintSaysSoAndIsAsItWasElse) {
  device::cuda::CudaProperties gpu;
  gpu.name = "a GPU";
  const std::string without = FingerprintOf(gpu, 13, 9, /*tf32=*/false);
  EXPECT_THAT(without, Not(HasSubstr("tf32")));
  EXPECT_EQ(FingerprintOf(gpu, 13, 9, /*tf32=*/true), without + " tf32");
}

std::vector<Kernel> KernelsOf(const graph::Graph& graph, bool tf32) {
  const Program program = lowering::Lower(graph, graph::ExtractRecipes(graph),
                                          CudaKernelRules(/*is_hopper=*/false, tf32));
  std::vector<Kernel> kernels;
  for (const Instruction& instruction : program.instructions) {
    kernels.push_back(instruction.kernel);
  }
  return kernels;
}

std::shared_ptr<const graph::Graph> UpsampledConvolution() {
  graph::GraphBuilder b;
  for (const testing::OpCase& c : testing::FusedCases()) {
    if (c.name == "upsample_conv2d_whole_vectors") c.build(b);
  }
  return testing::Share(std::move(b).Build().value());
}

TEST(Tf32Test, AnUpsampledImageIsConvolvedInOneInstruction) {
  EXPECT_THAT(KernelsOf(*UpsampledConvolution(), /*tf32=*/true),
              ElementsAre(Kernel::kUpsampleConvolution));
  EXPECT_THAT(KernelsOf(*UpsampledConvolution(), /*tf32=*/false),
              ElementsAre(Kernel::kUpsample, Kernel::kConvolution));
}

// With numbers of one sign, so that a result is no smaller than what it is made of.
std::shared_ptr<const graph::Graph> Linear(DType dtype = DType::kF32) {
  graph::GraphBuilder b;
  const auto x = b.Input("positive", DType::kF32, {64, 512}, graph::Rate::kStep);
  const auto w = b.Input("positive_weight", DType::kF32, {128, 512}, graph::Rate::kStep);
  b.Output("y", b.Linear(x, w));
  return testing::Share(testing::InDType(std::move(b).Build().value(), dtype));
}

std::shared_ptr<const graph::Graph> Convolution() {
  graph::GraphBuilder b;
  const auto x = b.Input("positive", DType::kF32, {1, 16, 16, 64}, graph::Rate::kStep);
  const auto w = b.Input("positive_weight", DType::kF32, {32, 64, 3, 3}, graph::Rate::kStep);
  b.Output("y",
           b.Conv2d(x, w, graph::kNone, {.padding = {1, 1, 1, 1}, .layout = graph::Layout::kNhwc}));
  return testing::Share(std::move(b).Build().value());
}

class Tf32GpuTest : public ::testing::Test {
 protected:
  void SetUp() override {
    int count = 0;
    if (cudaGetDeviceCount(&count) != cudaSuccess || count == 0) GTEST_SKIP() << "no GPU";
    ASSERT_OK_AND_ASSIGN(with_, CudaBackend::Create({.tf32 = true}));
    ASSERT_OK_AND_ASSIGN(without_, CudaBackend::Create());
  }

  static std::vector<double> Run(CudaBackend& backend,
                                 const std::shared_ptr<const graph::Graph>& graph) {
    const auto outputs = testing::RunOn(backend, graph, testing::RandomLeaves(*graph, /*seed=*/5));
    EXPECT_OK(outputs);
    return outputs.ok() ? testing::ToDoubles(outputs->front()) : std::vector<double>();
  }

  static Choices ChoicesOf(CudaBackend& backend, const graph::Graph& graph) {
    const absl::StatusOr<Plan> plan = backend.MakePlan(graph);
    EXPECT_OK(plan);
    return plan.ok() ? Decode(plan->bytes).value().choices : Choices();
  }

  // The largest difference of an element, as a share.
  double LargestDifference(const std::shared_ptr<const graph::Graph>& graph) {
    const std::vector<double> rounded = Run(*with_, graph), whole = Run(*without_, graph);
    EXPECT_EQ(rounded.size(), whole.size());
    double largest = 0;
    for (size_t i = 0; i < std::min(rounded.size(), whole.size()); ++i) {
      largest = std::max(largest, std::abs(rounded[i] - whole[i]) / std::abs(whole[i]));
    }
    return largest;
  }

  std::unique_ptr<CudaBackend> with_, without_;
};

// Each operand of a product is off by less than 2^-10, and f32's own rounding is next to nothing.
TEST_F(Tf32GpuTest, AProductRoundsItsOperandsAndNothingElse) {
  const double difference = LargestDifference(Linear());
  EXPECT_GT(difference, 0x1p-16);
  EXPECT_LT(difference, 0x1p-9);
}

TEST_F(Tf32GpuTest, AConvolutionRoundsItsOperandsAndNothingElse) {
  const double difference = LargestDifference(Convolution());
  EXPECT_GT(difference, 0x1p-16);
  EXPECT_LT(difference, 0x1p-9);
  EXPECT_THAT(ChoicesOf(*with_, *Convolution()),
              ElementsAre(Key(HasSubstr("convolution tf32 1x16x16x64 to 32"))));
  EXPECT_THAT(ChoicesOf(*without_, *Convolution()), ElementsAre(Key(HasSubstr("product"))));
}

TEST_F(Tf32GpuTest, APlanOfOneIsRefusedByTheOther) {
  EXPECT_NE(with_->Fingerprint(), without_->Fingerprint());
  EXPECT_EQ(with_->WeightFingerprint(), without_->WeightFingerprint());
  for (const auto& graph : {Linear(), Convolution()}) {
    ASSERT_OK_AND_ASSIGN(const Plan of_with, with_->MakePlan(*graph));
    ASSERT_OK_AND_ASSIGN(const Plan of_without, without_->MakePlan(*graph));
    EXPECT_OK(with_->CheckPlan(*graph, of_with));
    EXPECT_OK(without_->CheckPlan(*graph, of_without));
    EXPECT_THAT(with_->CheckPlan(*graph, of_without), StatusIs(absl::StatusCode::kDataLoss, _));
    EXPECT_THAT(without_->CheckPlan(*graph, of_with), StatusIs(absl::StatusCode::kDataLoss, _));
  }
}

TEST_F(Tf32GpuTest, WhatIsBf16IsAsWithoutIt) {
  const auto graph = Linear(DType::kBF16);
  const Choices choices = ChoicesOf(*with_, *graph);
  ASSERT_EQ(choices.size(), 1u);
  EXPECT_THAT(choices.begin()->first, Not(HasSubstr("tf32")));
  EXPECT_THAT(ChoicesOf(*without_, *graph), UnorderedElementsAre(Key(choices.begin()->first)));
}

}  // namespace
}  // namespace latentd::backends::cuda
