// Trials of algorithms and plans of the vendor's libraries: a wrong one is found out, and the next
// one is taken.
#include "core/backends/cuda/trial/plan_trial.h"

#include <cuda_runtime_api.h>
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <memory>
#include <nlohmann/json.hpp>
#include <string>
#include <utility>

#include "core/backends/cuda/libraries/cublas_lt.h"
#include "core/backends/cuda/libraries/product_trial.h"
#include "tests/core/backends/cuda/gpu_array.h"
#include "tests/support/status_matchers.h"

namespace latentd::backends::cuda {
namespace {

using device::DType;
using ::testing::HasSubstr;

using PlanTrialTest = kernels::GpuTest;

constexpr ConvolutionShape kConvolution = {.dtype = DType::kBF16,
                                           .rows = 2,
                                           .height = 18,
                                           .width = 22,
                                           .channels = 64,
                                           .out = 96,
                                           .kernel_height = 3,
                                           .kernel_width = 3,
                                           .padding_height = 1,
                                           .padding_width = 1,
                                           .has_bias = true,
                                           .has_residual = true};
constexpr TransposedConvolutionShape kTransposed = {
    .dtype = DType::kBF16, .rows = 2, .height = 10, .width = 12, .channels = 64, .out = 96};
// Queries, keys and values beside each other, as a merged product leaves them.
constexpr AttentionShape kAttention = {.dtype = DType::kBF16,
                                       .rows = 2,
                                       .heads = 5,
                                       .queries = 200,
                                       .keys = 200,
                                       .size = 64,
                                       .query = {200 * 960, 960},
                                       .key = {200 * 960, 960},
                                       .value = {200 * 960, 960},
                                       .scale = 0.125f};

// The part of a choice that names the kernel and its settings. The rest has another order, or other
// addresses in it, each time.
std::string PlanOf(const Choice& choice) {
  const std::string& bytes = choice.bytes;
  const auto read = nlohmann::json::from_ubjson(bytes.begin() + bytes.find('\n') + 1, bytes.end());
  const auto plan = nlohmann::json::parse(read.at("cudnn_backend_data").get<std::string>());
  return plan.at("engine").at("engineId").dump() + plan.at("engine").at("knobChoices").dump();
}

absl::Status RightPlan(const CudnnPlan&) { return absl::OkStatus(); }

// Computes as another plan does, and then spoils the end of the result.
class SpoiledPlan : public CudnnPlan {
 public:
  SpoiledPlan(std::shared_ptr<const CudnnPlan> right, size_t result_bytes)
      : right_(std::move(right)), result_bytes_(result_bytes) {}
  size_t workspace_bytes() const override { return right_->workspace_bytes(); }
  absl::Status Enqueue(absl::Span<void* const> addresses, void* workspace,
                       cudaStream_t stream) const override {
    absl::Status status = right_->Enqueue(addresses, workspace, stream);
    char* const end = static_cast<char*>(addresses.back()) + result_bytes_;
    const size_t spoiled = result_bytes_ / 4;
    EXPECT_EQ(cudaMemsetAsync(end - spoiled, 0, spoiled, stream), cudaSuccess);
    return status;
  }

 private:
  const std::shared_ptr<const CudnnPlan> right_;
  const size_t result_bytes_;
};

class FailingPlan : public CudnnPlan {
 public:
  size_t workspace_bytes() const override { return 0; }
  absl::Status Enqueue(absl::Span<void* const>, void*, cudaStream_t) const override {
    return absl::InternalError("it does not run");
  }
};

template <typename Shape>
void ExpectSpoiledIsFound(const Shape& shape, int64_t result_elements) {
  ASSERT_OK_AND_ASSIGN(const std::unique_ptr<Cudnn> cudnn, Cudnn::Open());
  ASSERT_OK_AND_ASSIGN(const Choice choice, cudnn->Choose(shape, RightPlan));
  ASSERT_OK_AND_ASSIGN(const auto plan, cudnn->Load(shape.Key(), choice.bytes));
  EXPECT_OK(TryPlan(shape, *plan));
  const auto bytes = static_cast<size_t>(device::SizeOf(shape.dtype) * result_elements);
  const absl::Status spoiled = TryPlan(shape, SpoiledPlan(plan, bytes));
  EXPECT_EQ(spoiled.code(), absl::StatusCode::kInternal);
  EXPECT_THAT(std::string(spoiled.message()), HasSubstr(shape.Key()));
}

TEST_F(PlanTrialTest, FindsOutAWrongConvolution) {
  ExpectSpoiledIsFound(kConvolution, 2 * 18 * 22 * 96);
  ConvolutionShape halving = kConvolution;
  halving.stride = 2;
  halving.has_bias = halving.has_residual = false;
  ExpectSpoiledIsFound(halving, 2 * 9 * 11 * 96);
  ConvolutionShape in_tf32 = kConvolution;
  in_tf32.dtype = DType::kF32;
  ExpectSpoiledIsFound(in_tf32, 2 * 18 * 22 * 96);
}

TEST_F(PlanTrialTest, FindsOutAWrongTransposedConvolution) {
  ExpectSpoiledIsFound(kTransposed, 2 * 20 * 24 * 96);
}

TEST_F(PlanTrialTest, FindsOutWrongAttention) {
  ExpectSpoiledIsFound(kAttention, 2 * 200 * 5 * 64);
  AttentionShape causal = kAttention;
  causal.causal = true;
  ExpectSpoiledIsFound(causal, 2 * 200 * 5 * 64);
}

TEST_F(PlanTrialTest, APlanThatFailsIsWrong) {
  EXPECT_EQ(TryPlan(kConvolution, FailingPlan()).code(), absl::StatusCode::kInternal);
}

TEST_F(PlanTrialTest, TheNextPlanIsTakenWhereOneIsWrong) {
  ASSERT_OK_AND_ASSIGN(const std::unique_ptr<Cudnn> cudnn, Cudnn::Open());
  ASSERT_OK_AND_ASSIGN(const Choice first, cudnn->Choose(kConvolution, RightPlan));
  int tried = 0;
  const auto wrong_at_first = [&](const CudnnPlan& plan) {
    return ++tried == 1 ? absl::InternalError("injected") : TryPlan(kConvolution, plan);
  };
  ASSERT_OK_AND_ASSIGN(const Choice second, cudnn->Choose(kConvolution, wrong_at_first));
  EXPECT_EQ(tried, 2);
  EXPECT_NE(PlanOf(second), PlanOf(first));
  const auto no_memory = [](const CudnnPlan&) { return absl::ResourceExhaustedError("none"); };
  ASSERT_OK_AND_ASSIGN(const Choice untried, cudnn->Choose(kConvolution, no_memory));
  EXPECT_EQ(PlanOf(untried), PlanOf(first));
  EXPECT_TRUE(first.lasting);
  EXPECT_FALSE(untried.lasting);
}

TEST_F(PlanTrialTest, NoPlanIsTakenWhereAllAreWrong) {
  ASSERT_OK_AND_ASSIGN(const std::unique_ptr<Cudnn> cudnn, Cudnn::Open());
  const auto wrong = [](const CudnnPlan&) { return absl::InternalError("injected"); };
  EXPECT_EQ(cudnn->Choose(kConvolution, wrong).status().code(), absl::StatusCode::kUnimplemented);
}

// A right algorithm passes, and the same for a product of another scale does not.
void ExpectWrongProductIsFound(DType dtype, bool tf32) {
  ASSERT_OK_AND_ASSIGN(const std::unique_ptr<CublasLt> cublas_lt, CublasLt::Open());
  ProductShape shape;
  shape.tf32 = tf32;
  shape.rows = 96;
  shape.columns = 160;
  shape.depth = 64;
  shape.a = {dtype, 64};
  shape.b = {dtype, 64};
  shape.result = {dtype, 160};
  shape.b_transposed = true;
  ASSERT_OK_AND_ASSIGN(const Choice algorithm, cublas_lt->Choose(shape));
  ASSERT_OK_AND_ASSIGN(const auto trial, ProductTrial::Create(shape));
  ASSERT_OK_AND_ASSIGN(const auto right, cublas_lt->Load(shape, algorithm.bytes));
  EXPECT_OK(trial->Check(*right));
  ProductShape other = shape;
  other.scale = 1.125f;
  ASSERT_OK_AND_ASSIGN(const auto wrong, cublas_lt->Load(other, algorithm.bytes));
  EXPECT_EQ(trial->Check(*wrong).code(), absl::StatusCode::kInternal);
}

TEST_F(PlanTrialTest, FindsOutAWrongProduct) {
  ExpectWrongProductIsFound(DType::kBF16, /*tf32=*/false);
  ExpectWrongProductIsFound(DType::kF32, /*tf32=*/false);
  ExpectWrongProductIsFound(DType::kF32, /*tf32=*/true);
}

}  // namespace
}  // namespace latentd::backends::cuda
