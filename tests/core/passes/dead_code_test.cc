#include "core/passes/dead_code.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "core/graph/graph_builder.h"
#include "core/graph/verifier.h"
#include "tests/core/passes/networks.h"
#include "tests/support/status_matchers.h"

namespace latentd::passes {
namespace {

using graph::DType;
using graph::GraphBuilder;
using graph::Op;
using graph::Rate;
using graph::Value;

TEST(RemoveDeadCode, RemovesWhatNoOutputDependsOnAndKeepsInputs) {
  GraphBuilder b;
  const Value x = b.Input("x", DType::kF32, {4}, Rate::kStep);
  b.Input("unused", DType::kF32, {4}, Rate::kStep);
  b.Add(b.Silu(x), b.Weight("unused_weight", {4}));
  b.Output("y", b.Gelu(x));
  ASSERT_OK_AND_ASSIGN(const graph::Graph graph, std::move(b).Build());
  ASSERT_OK_AND_ASSIGN(const graph::Graph result, RemoveDeadCode(graph, {}));
  EXPECT_OK(Verify(result));
  EXPECT_EQ(result.size(), 3);
  EXPECT_EQ(Count(result, Op::kInput), 2);
  EXPECT_EQ(Count(result, Op::kGelu), 1);
}

}  // namespace
}  // namespace latentd::passes
