#include "core/backends/reference/reference_backend.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "core/backends/reference/evaluate.h"
#include "core/backends/reference/operators.h"
#include "core/graph/graph_builder.h"
#include "core/graph/op_table.h"
#include "core/weights/weight_store.h"
#include "tests/conformance/run_graph.h"
#include "tests/support/status_matchers.h"

namespace latentd::backends::reference {
namespace {

using device::Buffer;
using device::DType;
using graph::GraphBuilder;
using graph::Rate;
using graph::Value;
using ::testing::HasSubstr;
using testing::StatusIs;

std::shared_ptr<const graph::Graph> Built(GraphBuilder b) {
  return std::make_shared<const graph::Graph>(std::move(b).Build().value());
}

class ReferenceBackendTest : public ::testing::Test {
 protected:
  absl::StatusOr<std::unique_ptr<Executable>> Load(GraphBuilder b) {
    const auto graph = Built(std::move(b));
    return backend_.Load(graph, backend_.Plan(*graph).value(), set_);
  }

  weights::WeightStore store_{EvaluateRecipe};
  weights::WeightSet set_{&store_};
  ReferenceBackend backend_;
};

TEST_F(ReferenceBackendTest, HasARowForEveryOpOfTheTable) {
  ASSERT_EQ(Operators().size(), graph::OpTable().size());
  for (const graph::OpRow& row : graph::OpTable()) EXPECT_EQ(OperatorOf(row.op).op, row.op);
}

TEST_F(ReferenceBackendTest, RefusesAPlanOfSomethingElse) {
  GraphBuilder b;
  b.Output("y", b.Silu(b.Input("x", DType::kF32, {2}, Rate::kStep)));
  EXPECT_THAT(backend_.Load(Built(std::move(b)),
                            "\x7f"
                            "ELF",
                            set_),
              StatusIs(absl::StatusCode::kDataLoss, HasSubstr("not a plan")));
}

TEST_F(ReferenceBackendTest, NamesThePortWhoseBufferDoesNotFit) {
  GraphBuilder b;
  b.Output("y", b.Silu(b.Input("sample", DType::kF32, {2}, Rate::kStep)));
  ASSERT_OK_AND_ASSIGN(const auto executable, Load(std::move(b)));
  EXPECT_THAT(testing::RunOnce(*executable, {Buffer::Allocate(DType::kF32, {3})}),
              StatusIs(absl::StatusCode::kInvalidArgument,
                       HasSubstr("input \"sample\" is f32[2], not f32[3]")));
  EXPECT_THAT(testing::RunOnce(*executable, {}),
              StatusIs(absl::StatusCode::kInvalidArgument, HasSubstr("1 inputs, not 0")));
  EXPECT_THAT(testing::RunOnce(*executable, {Buffer()}),
              StatusIs(absl::StatusCode::kInvalidArgument, HasSubstr("sample")));
}

TEST_F(ReferenceBackendTest, TurnsWhatAtenThrowsIntoAStatus) {
  GraphBuilder b;
  const Value table = b.Input("table", DType::kF32, {2, 3}, Rate::kStep);
  b.Output("y", b.Embedding(table, b.Input("ids", DType::kI64, {1}, Rate::kStep)));
  ASSERT_OK_AND_ASSIGN(const auto executable, Load(std::move(b)));
  Buffer ids = Buffer::Allocate(DType::kI64, {1});
  ids.as<int64_t>()[0] = 2;
  EXPECT_THAT(testing::RunOnce(*executable, {Buffer::Allocate(DType::kF32, {2, 3}), ids}),
              StatusIs(absl::StatusCode::kInvalidArgument, HasSubstr("the reference backend")));
}

TEST_F(ReferenceBackendTest, NamesAMissingWeight) {
  GraphBuilder b;
  const Value x = b.Input("x", DType::kF32, {2, 3}, Rate::kStep);
  b.Output("y", b.Linear(x, b.Weight("net/proj.weight", {4, 3})));
  EXPECT_THAT(Load(std::move(b)),
              StatusIs(absl::StatusCode::kNotFound, HasSubstr("net/proj.weight")));
}

TEST_F(ReferenceBackendTest, KeepsIntermediatesOnlyUntilTheirLastUse) {
  GraphBuilder b;
  Value x = b.Input("x", DType::kF32, {1000}, Rate::kStep);
  for (int i = 0; i < 20; ++i) x = b.Silu(x);
  b.Output("y", x);
  ASSERT_OK_AND_ASSIGN(const auto executable, Load(std::move(b)));
  EXPECT_EQ(executable->arena_bytes(), 2000 * sizeof(float));
}

}  // namespace
}  // namespace latentd::backends::reference
