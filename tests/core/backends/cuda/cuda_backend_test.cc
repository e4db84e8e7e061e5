#include "core/backends/cuda/cuda_backend.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "core/backends/cuda/plan.h"
#include "core/graph/graph_builder.h"
#include "core/weights/weight_store.h"
#include "tests/conformance/checks.h"
#include "tests/support/status_matchers.h"

namespace latentd::backends::cuda {
namespace {

using ::testing::_;
using ::testing::AnyOf;
using ::testing::HasSubstr;
using testing::StatusIs;

bool HasGpu() {
  int count = 0;
  return cudaGetDeviceCount(&count) == cudaSuccess && count > 0;
}

TEST(CudaBackendTest, SaysWhatIsMissingWhereThereIsNoGpu) {
  if (HasGpu()) GTEST_SKIP() << "there is one";
  EXPECT_THAT(CudaBackend::Create(),
              StatusIs(absl::StatusCode::kFailedPrecondition,
                       AnyOf(HasSubstr("no NVIDIA driver"), HasSubstr("no GPU"))));
}

class CudaBackendGpuTest : public ::testing::Test {
 protected:
  void SetUp() override {
    if (!HasGpu()) GTEST_SKIP() << "no GPU";
    ASSERT_OK_AND_ASSIGN(backend_, CudaBackend::Create());
    graph::GraphBuilder b;
    const auto x = b.Input("x", device::DType::kF32, {2, 64}, graph::Rate::kStep);
    const auto weight = b.Weight("net/w", {64, 64});
    b.Output("y", b.Linear(x, weight));
    graph_ = testing::Share(std::move(b).Build().value());
    leaves_ = testing::RandomLeaves(*graph_, /*seed=*/3);
  }

  std::unique_ptr<CudaBackend> backend_;
  std::shared_ptr<const graph::Graph> graph_;
  testing::Leaves leaves_;
};

TEST_F(CudaBackendGpuTest, APlanIsCheckedAgainstItsGraph) {
  ASSERT_OK_AND_ASSIGN(Plan plan, backend_->MakePlan(*graph_));
  EXPECT_OK(backend_->CheckPlan(*graph_, plan));
  Plan damaged = plan;
  damaged.bytes.pop_back();
  EXPECT_THAT(backend_->CheckPlan(*graph_, damaged), StatusIs(absl::StatusCode::kDataLoss, _));
  Plan greedy = plan;
  greedy.arena_bytes += 256;
  EXPECT_THAT(backend_->CheckPlan(*graph_, greedy), StatusIs(absl::StatusCode::kDataLoss, _));
}

TEST_F(CudaBackendGpuTest, APlanWithoutItsChoicesIsDamaged) {
  ASSERT_OK_AND_ASSIGN(Plan plan, backend_->MakePlan(*graph_));
  ASSERT_OK_AND_ASSIGN(CudaPlan read, Decode(plan.bytes));
  read.choices.clear();
  plan.bytes = Encode(read);
  EXPECT_THAT(backend_->CheckPlan(*graph_, plan), StatusIs(absl::StatusCode::kDataLoss, _));
}

TEST_F(CudaBackendGpuTest, ComputesTheSameBytesAgain) {
  ASSERT_OK_AND_ASSIGN(const auto first, testing::RunOn(*backend_, graph_, leaves_));
  ASSERT_OK_AND_ASSIGN(const auto again, testing::RunOn(*backend_, graph_, leaves_));
  EXPECT_EQ(testing::ToDoubles(first[0]), testing::ToDoubles(again[0]));
}

TEST_F(CudaBackendGpuTest, TheArenaIsAsLargeAsTheLargestGraphThatIsLoaded) {
  weights::WeightStore store(*backend_);
  weights::WeightSet set(&store);
  set.Add("net", leaves_.weights);
  ASSERT_OK_AND_ASSIGN(const Plan plan, backend_->MakePlan(*graph_));
  {
    ASSERT_OK_AND_ASSIGN(const auto executable, backend_->Load(graph_, plan, set));
    EXPECT_EQ(backend_->arena_bytes(), plan.arena_bytes);
  }
  EXPECT_EQ(backend_->arena_bytes(), 0u);
}

}  // namespace
}  // namespace latentd::backends::cuda
