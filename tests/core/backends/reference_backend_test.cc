#include "core/backends/reference/reference_backend.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "core/backends/reference/catch_aten.h"
#include "core/backends/reference/tensor_view.h"
#include "core/graph/graph_builder.h"
#include "core/weights/weight_store.h"
#include "tests/conformance/run_graph.h"
#include "tests/support/on_host.h"
#include "tests/support/run_executable.h"
#include "tests/support/status_matchers.h"

namespace latentd::backends::reference {
namespace {

using device::Buffer;
using device::DType;
using graph::GraphBuilder;
using graph::Rate;
using graph::Value;
using ::testing::ElementsAre;
using ::testing::HasSubstr;
using testing::StatusIs;

std::shared_ptr<const graph::Graph> Built(GraphBuilder b) {
  return std::make_shared<const graph::Graph>(std::move(b).Build().value());
}

class ReferenceBackendTest : public ::testing::Test {
 protected:
  absl::StatusOr<std::unique_ptr<Executable>> Load(GraphBuilder b) {
    const auto graph = Built(std::move(b));
    return backend_.Load(graph, backend_.MakePlan(*graph).value(), set_);
  }

  ReferenceBackend backend_;
  weights::WeightStore store_{backend_};
  weights::WeightSet set_{&store_};
};

TEST_F(ReferenceBackendTest, RefusesAPlanOfSomethingElse) {
  GraphBuilder b;
  b.Output("y", b.Silu(b.Input("x", DType::kF32, {2}, Rate::kStep)));
  const auto graph = Built(std::move(b));
  Plan plan = backend_.MakePlan(*graph).value();
  plan.bytes =
      "\x7f"
      "ELF";
  EXPECT_THAT(backend_.Load(graph, plan, set_),
              StatusIs(absl::StatusCode::kDataLoss, HasSubstr("not a plan")));
}

TEST_F(ReferenceBackendTest, NamesThePortWhoseBufferDoesNotFit) {
  GraphBuilder b;
  b.Output("y", b.Silu(b.Input("sample", DType::kF32, {2}, Rate::kStep)));
  ASSERT_OK_AND_ASSIGN(const auto executable, Load(std::move(b)));
  EXPECT_THAT(testing::RunExecutable(*executable, {Buffer::Allocate(DType::kF32, {3})}),
              StatusIs(absl::StatusCode::kInvalidArgument,
                       HasSubstr("input \"sample\" is f32[2], not f32[3]")));
  EXPECT_THAT(testing::RunExecutable(*executable, {}),
              StatusIs(absl::StatusCode::kInvalidArgument, HasSubstr("1 inputs, not 0")));
  EXPECT_THAT(testing::RunExecutable(*executable, {Buffer()}),
              StatusIs(absl::StatusCode::kInvalidArgument, HasSubstr("sample")));
}

TEST(CatchAten, TurnsWhatAtenThrowsIntoAStatus) {
  const auto reshape = []() -> absl::Status {
    View(Buffer::Allocate(DType::kF32, {2})).reshape({3});
    return absl::OkStatus();
  };
  EXPECT_THAT(CatchAten("the reference backend", reshape),
              StatusIs(absl::StatusCode::kInvalidArgument,
                       HasSubstr("the reference backend: shape '[3]' is invalid")));
}

TEST_F(ReferenceBackendTest, NamesAMissingWeight) {
  GraphBuilder b;
  const Value x = b.Input("x", DType::kF32, {2, 3}, Rate::kStep);
  b.Output("y", b.Linear(x, b.Weight("net/proj.weight", {4, 3})));
  EXPECT_THAT(Load(std::move(b)),
              StatusIs(absl::StatusCode::kNotFound, HasSubstr("net/proj.weight")));
}

TEST_F(ReferenceBackendTest, MakesPlainWeightsOnly) {
  GraphBuilder b;
  const Value a = b.Weight("net/a", {2});
  b.Output("result", b.Concat({a, a}, 0));
  const auto recipe = Built(std::move(b));
  const Buffer numbers = Buffer::Allocate(DType::kF32, {2});
  numbers.as<float>()[1] = 7;
  set_.Add("net", {{"a", {numbers, "file"}}});
  ASSERT_OK_AND_ASSIGN(const weights::WeightRef held, store_.Get(*recipe, set_));
  EXPECT_THAT(testing::OnHost(*held).as<float>(), ElementsAre(0, 7, 0, 7));
  EXPECT_EQ(store_.NeedsOf(*recipe, set_)->making_bytes, 4 * sizeof(float));
  EXPECT_THAT(store_.Get(*recipe, set_, {"halves", 16}),
              StatusIs(absl::StatusCode::kUnimplemented, HasSubstr("halves")));
}

TEST_F(ReferenceBackendTest, KeepsIntermediatesOnlyUntilTheirLastUse) {
  GraphBuilder b;
  Value x = b.Input("x", DType::kF32, {1000}, Rate::kStep);
  for (int i = 0; i < 20; ++i) x = b.Silu(x);
  b.Output("y", x);
  ASSERT_OK_AND_ASSIGN(const auto executable, Load(std::move(b)));
  EXPECT_EQ(executable->info().arena_bytes, 2000 * sizeof(float));
}

}  // namespace
}  // namespace latentd::backends::reference
