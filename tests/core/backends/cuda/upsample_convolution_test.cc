// Instructions, plans and weights of an upsampling and its convolution. The conformance suite tests
// their results.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <memory>
#include <set>
#include <string>
#include <vector>

#include "core/backends/cuda/binders/binders.h"
#include "core/backends/cuda/binders/packing.h"
#include "core/backends/cuda/bound_program.h"
#include "core/backends/cuda/cuda_backend.h"
#include "core/backends/cuda/kernel_rules.h"
#include "core/backends/cuda/plan.h"
#include "core/backends/lowering/lowering.h"
#include "tests/conformance/checks.h"
#include "tests/conformance/low_precision.h"
#include "tests/support/status_matchers.h"

namespace latentd::backends::cuda {
namespace {

using device::DType;
using ::testing::_;
using ::testing::Contains;
using ::testing::ElementsAre;
using ::testing::Key;
using ::testing::Not;
using ::testing::Pair;
using ::testing::StartsWith;
using testing::StatusIs;

graph::Graph FusedCase(const std::string& name, DType dtype) {
  graph::GraphBuilder b;
  for (const testing::OpCase& c : testing::FusedCases()) {
    if (c.name == name) c.build(b);
  }
  return testing::InDType(std::move(b).Build().value(), dtype);
}

std::vector<Kernel> Kernels(const std::string& name, DType dtype) {
  const graph::Graph graph = FusedCase(name, dtype);
  const Program program =
      lowering::Lower(graph, graph::ExtractRecipes(graph), CudaKernelRules(/*is_hopper=*/false));
  std::vector<Kernel> kernels;
  for (const Instruction& instruction : program.instructions) {
    kernels.push_back(instruction.kernel);
  }
  return kernels;
}

TEST(UpsampleConvolutionTest, IsOneInstructionInWhatCudnnIsGiven) {
  for (DType dtype : {DType::kBF16, DType::kF16}) {
    EXPECT_THAT(Kernels("upsample_conv2d_whole_vectors", dtype),
                ElementsAre(Kernel::kUpsampleConvolution));
    EXPECT_THAT(Kernels("upsample_conv2d_residual", dtype),
                ElementsAre(Kernel::kUpsampleConvolution, Kernel::kBinary));
  }
}

TEST(UpsampleConvolutionTest, IsItsTwoOpsInF32AndOfAWeightThatIsMadeInEachRun) {
  EXPECT_THAT(Kernels("upsample_conv2d_whole_vectors", DType::kF32),
              ElementsAre(Kernel::kUpsample, Kernel::kConvolution));
  EXPECT_THAT(Kernels("upsample_conv2d_made_weight", DType::kBF16),
              ElementsAre(Kernel::kUpsample, Kernel::kConvolution));
}

TEST(UpsampleConvolutionTest, AKeyTellsEveryShapeFromEveryOther) {
  std::vector<TransposedConvolutionShape> shapes(7, {DType::kBF16, 1, 2, 3, 4, 5});
  shapes[1].dtype = DType::kF16;
  shapes[2].rows = 6;
  shapes[3].height = 6;
  shapes[4].width = 6;
  shapes[5].channels = 6;
  shapes[6].out = 6;
  std::set<std::string> keys = {ConvolutionShape{DType::kBF16, 1, 2, 3, 4, 5, 4, 4, 2, 1, 1}.Key()};
  for (const TransposedConvolutionShape& shape : shapes) keys.insert(shape.Key());
  EXPECT_EQ(keys.size(), 1 + shapes.size());
}

TEST(UpsampleConvolutionTest, ItsWeightIsHeldAsFourByFour) {
  ASSERT_OK_AND_ASSIGN(const size_t bytes,
                       PackedBytes(kDoublingForm, DType::kBF16, {64, 32, 3, 3}));
  EXPECT_EQ(bytes, 64u * 32 * 4 * 4 * 2);
  EXPECT_THAT(PackedBytes(kDoublingForm, DType::kBF16, {64, 32, 3, 1}),
              StatusIs(absl::StatusCode::kUnimplemented, _));
}

// A cuDNN that has no transposed convolution.
class WithoutTransposed : public Cudnn {
 public:
  explicit WithoutTransposed(Cudnn& real) : real_(real) {}

  size_t version() const override { return real_.version(); }
  absl::StatusOr<Choice> Choose(const ConvolutionShape& shape, Trial trial) override {
    return real_.Choose(shape, trial);
  }
  absl::StatusOr<Choice> Choose(const TransposedConvolutionShape&, Trial) override {
    return absl::UnimplementedError("none");
  }
  absl::StatusOr<Choice> Choose(const AttentionShape& shape, Trial trial) override {
    return real_.Choose(shape, trial);
  }
  absl::StatusOr<std::shared_ptr<const CudnnPlan>> Load(const std::string& key,
                                                        absl::string_view plan) override {
    return real_.Load(key, plan);
  }

 private:
  Cudnn& real_;
};

class UpsampleConvolutionGpuTest : public ::testing::Test {
 protected:
  void SetUp() override {
    int count = 0;
    if (cudaGetDeviceCount(&count) != cudaSuccess || count == 0) GTEST_SKIP() << "no GPU";
    ASSERT_OK_AND_ASSIGN(backend_, CudaBackend::Create());
  }

  // The plan's choices for that case in bf16, once it has been checked.
  Choices ChoicesOf(const std::string& name) {
    const graph::Graph graph = FusedCase(name, DType::kBF16);
    const absl::StatusOr<Plan> plan = backend_->MakePlan(graph);
    EXPECT_OK(plan);
    if (!plan.ok()) return {};
    EXPECT_OK(backend_->CheckPlan(graph, *plan));
    return Decode(plan->bytes).value().choices;
  }

  std::unique_ptr<CudaBackend> backend_;
};

TEST_F(UpsampleConvolutionGpuTest, ReadsTheSmallImageWhereChannelsAreEights) {
  EXPECT_THAT(ChoicesOf("upsample_conv2d_whole_vectors"),
              ElementsAre(Pair("transposed convolution bf16 2x6x5x32 to 64 by 4x4/2+1",
                               StartsWith("transposed convolution"))));
}

TEST_F(UpsampleConvolutionGpuTest, ReadsTheLargeImageElse) {
  const Choices choices = ChoicesOf("upsample_conv2d_odd");
  EXPECT_THAT(choices, Contains(Key(StartsWith("convolution bf16 3x10x14x13 to 11"))));
  EXPECT_THAT(choices, Not(Contains(Key(StartsWith("transposed")))));
}

TEST_F(UpsampleConvolutionGpuTest, ItsPlanPredictsTheWeightThatItHolds) {
  const auto graph = testing::Share(FusedCase("upsample_conv2d_whole_vectors", DType::kBF16));
  const testing::Leaves leaves = testing::RandomLeaves(*graph, /*seed=*/3);
  ASSERT_OK_AND_ASSIGN(const Plan plan, backend_->MakePlan(*graph));
  weights::WeightStore store(*backend_);
  weights::WeightSet set(&store);
  set.Add("net", leaves.weights);
  ASSERT_OK_AND_ASSIGN(const MemoryNeeds needs, NeedsOf(*graph, plan, set));
  size_t bytes = 0;
  for (const auto& [key, size] : needs.weights) bytes += size;
  EXPECT_EQ(bytes, (64u * 32 * 4 * 4 + 64) * 2);
  ASSERT_OK_AND_ASSIGN(const auto executable, backend_->Load(graph, plan, set));
  EXPECT_EQ(store.bytes_held(), bytes);
}

TEST_F(UpsampleConvolutionGpuTest, ReadsTheLargeImageWhereCudnnHasNoTransposedConvolution) {
  ASSERT_OK_AND_ASSIGN(const auto device, device::cuda::CudaDevice::Open());
  ASSERT_OK_AND_ASSIGN(const auto cublas_lt, CublasLt::Open());
  ASSERT_OK_AND_ASSIGN(const auto cudnn, Cudnn::Open());
  WithoutTransposed without(*cudnn);
  Findings findings;
  Choices choices;
  const graph::Graph graph = FusedCase("upsample_conv2d_whole_vectors", DType::kBF16);
  ASSERT_OK_AND_ASSIGN(const BoundProgram bound, Bind(graph, graph::ExtractRecipes(graph),
                                                      Chooser::Choosing(findings, choices),
                                                      {*device, *cublas_lt, without, findings}));
  EXPECT_THAT(choices, ElementsAre(Key(StartsWith("convolution bf16 2x12x10x32")),
                                   Pair(StartsWith("transposed"), kByProducts)));
  ASSERT_EQ(bound.needs.size(), 1u);
  EXPECT_GE(bound.needs[0].workspace_bytes, 2u * 12 * 10 * 32 * 2);
  ASSERT_TRUE(bound.needs[0].packing.has_value());
  EXPECT_EQ(bound.needs[0].packing->form, kChannelsLastForm);
}

}  // namespace
}  // namespace latentd::backends::cuda
