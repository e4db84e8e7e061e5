#include "core/backends/reference/evaluate.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "core/base/errors/error_details.h"
#include "core/graph/graph_builder.h"
#include "tests/core/backends/heap_requests.h"
#include "tests/support/sanitized.h"
#include "tests/support/status_matchers.h"
#include "tests/support/stored_weight.h"

namespace latentd::backends::reference {
namespace {

using device::Buffer;
using device::ConstBuffer;
using device::DType;
using ::testing::ElementsAre;
using ::testing::HasSubstr;
using testing::StatusIs;

graph::Graph Built(graph::GraphBuilder b) { return std::move(b).Build().value(); }

Buffer Floats(std::vector<float> values, device::Shape shape) {
  Buffer buffer = Buffer::Allocate(DType::kF32, std::move(shape));
  std::copy(values.begin(), values.end(), buffer.as<float>().begin());
  return buffer;
}

TEST(EvaluateRecipe, ComputesFromSourcesInTheOrderOfTheWeights) {
  graph::GraphBuilder b;
  b.Output("result", b.Concat({b.Weight("net/a", {1, 2}), b.Weight("net/b", {1, 2})}, 0));
  ASSERT_OK_AND_ASSIGN(
      const ConstBuffer result,
      EvaluateRecipe(Built(std::move(b)), {Floats({1, 2}, {1, 2}), Floats({3, 4}, {1, 2})}));
  EXPECT_EQ(result.shape(), (device::Shape{2, 2}));
  EXPECT_THAT(result.as<float>(), ElementsAre(1, 2, 3, 4));
}

TEST(EvaluateRecipe, CastsHalfPrecisionSources) {
  graph::GraphBuilder b;
  b.Output("result", testing::CastWeight(b, "net/a", DType::kBF16, {2}));
  Buffer source = Buffer::Allocate(DType::kBF16, {2});
  auto* bits = static_cast<uint16_t*>(source.data());
  bits[0] = 0x3f80;
  bits[1] = 0xc000;
  ASSERT_OK_AND_ASSIGN(const ConstBuffer result, EvaluateRecipe(Built(std::move(b)), {source}));
  EXPECT_EQ(result.dtype(), DType::kF32);
  EXPECT_THAT(result.as<float>(), ElementsAre(1, -2));
}

TEST(EvaluateRecipe, GivesASourceBackWithoutACopy) {
  graph::GraphBuilder b;
  b.Output("result", b.Reshape(b.Weight("net/a", {2, 2}), {4}));
  const Buffer source = Floats({1, 2, 3, 4}, {2, 2});
  ASSERT_OK_AND_ASSIGN(const ConstBuffer result, EvaluateRecipe(Built(std::move(b)), {source}));
  EXPECT_EQ(result.data(), source.data());
  EXPECT_EQ(result.shape(), device::Shape{4});
}

TEST(EvaluateRecipe, CopiesAPartOfASourceSoThatItOutlivesIt) {
  graph::GraphBuilder b;
  b.Output("result", b.Slice(b.Weight("net/a", {2, 2}), 0, 1, 2));
  absl::StatusOr<ConstBuffer> result;
  {
    const Buffer source = Floats({1, 2, 3, 4}, {2, 2});
    result = EvaluateRecipe(Built(std::move(b)), {source});
    ASSERT_OK(result);
    EXPECT_NE(result->data(), static_cast<const float*>(source.data()) + 2);
  }
  EXPECT_THAT(result->as<float>(), ElementsAre(3, 4));
}

TEST(EvaluateRecipe, NeedsNoSourceForLiterals) {
  graph::GraphBuilder b;
  b.Output("result", b.Mul(b.Constant({2, 3}, {2}), b.Scalar(10)));
  ASSERT_OK_AND_ASSIGN(const ConstBuffer result, EvaluateRecipe(Built(std::move(b)), {}));
  EXPECT_THAT(result.as<float>(), ElementsAre(20, 30));
}

TEST(EvaluateRecipe, SaysHowManySourcesItWants) {
  graph::GraphBuilder b;
  b.Output("result", b.Weight("net/a", {2}));
  EXPECT_THAT(EvaluateRecipe(Built(std::move(b)), {}),
              StatusIs(absl::StatusCode::kInvalidArgument, HasSubstr("1 weights")));
}

TEST(EvaluateRecipe, NamesTheWeightWhoseSourceHasAnotherSize) {
  graph::GraphBuilder b;
  b.Output("result", b.Weight("net/a", {2}));
  EXPECT_THAT(EvaluateRecipe(Built(std::move(b)), {Floats({1, 2, 3}, {3})}),
              StatusIs(absl::StatusCode::kInvalidArgument, HasSubstr("net/a")));
}

// Compares the peak memory of an evaluation with the predicted `bytes`.
void ExpectPredictedPeak(const graph::Graph& recipe, const std::vector<ConstBuffer>& sources,
                         size_t bytes) {
  EXPECT_EQ(EvaluationBytes(recipe), bytes);
  if (!testing::HeapRequests::Counted()) return;
  const testing::HeapRequests requests(1);
  ASSERT_OK(EvaluateRecipe(recipe, sources));
  EXPECT_LE(requests.peak(), bytes + (16 << 10));
  EXPECT_GE(requests.peak(), bytes - bytes / 20);
}

constexpr int64_t kMany = int64_t{1} << 20;

// As merged linears are made: every cast, then the concatenation, before the first cast is freed.
TEST(EvaluationBytes, OfAConcatenationOfCastsAreTwiceItsResult) {
  graph::GraphBuilder b;
  b.Output("result", b.Concat({testing::CastWeight(b, "net/a", DType::kF16, {kMany}),
                               testing::CastWeight(b, "net/b", DType::kF16, {kMany})},
                              0));
  const Buffer half = Buffer::Allocate(DType::kF16, {kMany});
  ExpectPredictedPeak(Built(std::move(b)), {half, half}, 4 * kMany * sizeof(float));
}

TEST(EvaluationBytes, CountWhatIsComputedInF32ForAResultInHalfPrecision) {
  graph::GraphBuilder b;
  const graph::Value a =
      b.Cast(testing::CastWeight(b, "net/a", DType::kBF16, {kMany}), DType::kBF16);
  b.Output("result", b.Concat({a, a}, 0));
  const Buffer half = Buffer::Allocate(DType::kBF16, {kMany});
  const graph::Graph recipe = Built(std::move(b));
  EXPECT_GE(EvaluationBytes(recipe), 2 * kMany * (sizeof(float) + sizeof(float) + 2));
  if (!testing::HeapRequests::Counted()) return;
  const testing::HeapRequests requests(1);
  ASSERT_OK(EvaluateRecipe(recipe, {half}));
  EXPECT_LE(requests.peak(), EvaluationBytes(recipe) + (16 << 10));
}

TEST(EvaluationBytes, AreNoneOfASourceAsItCame) {
  graph::GraphBuilder b;
  b.Output("result", b.Reshape(b.Weight("net/a", {2, 2}), {4}));
  EXPECT_EQ(EvaluationBytes(Built(std::move(b))), 0u);
}

// More than any machine has addresses for: ATen's allocator throws a plain c10::Error.
TEST(EvaluateRecipe, SaysThatThereIsNoMemory) {
#if defined(LATENTD_SANITIZED)
  GTEST_SKIP() << "the sanitizer's heap ends the process instead";
#endif
  constexpr int64_t kSide = int64_t{1} << 23;
  graph::GraphBuilder b;
  b.Output("result", b.Matmul(b.Weight("net/a", {kSide, 1}), b.Weight("net/b", {1, kSide})));
  const Buffer source = Buffer::Allocate(DType::kF32, {kSide});
  const auto result = EvaluateRecipe(Built(std::move(b)), {source, source});
  EXPECT_THAT(result, StatusIs(absl::StatusCode::kResourceExhausted, HasSubstr("recipe")));
  EXPECT_EQ(GetReason(result.status()), "OUT_OF_MEMORY");
}

TEST(EvaluateRecipe, RefusesAGraphWithAnInput) {
  graph::GraphBuilder b;
  b.Output("result", b.Silu(b.Input("x", DType::kF32, {2}, graph::Rate::kStep)));
  EXPECT_THAT(EvaluateRecipe(Built(std::move(b)), {}),
              StatusIs(absl::StatusCode::kInvalidArgument, HasSubstr("no value is bound to x")));
}

}  // namespace
}  // namespace latentd::backends::reference
