#include "core/graph/verifier.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "core/graph/graph_builder.h"
#include "tests/support/status_matchers.h"

namespace latentd::graph {
namespace {

using ::testing::HasSubstr;
using testing::StatusIs;

Node Input(std::string name, Rate rate = Rate::kStep) {
  return {.op = Op::kInput, .dtype = DType::kF32, .shape = {4}, .rate = rate, .name = name};
}

Node Silu(ValueId operand) {
  return {.op = Op::kSilu, .operands = {operand}, .shape = {4}, .rate = Rate::kStep};
}

absl::Status VerifyNodes(std::vector<Node> nodes, std::vector<Output> outputs = {{"y", 0}}) {
  return Verify(Graph(std::move(nodes), std::move(outputs)));
}

auto Invalid(const std::string& message) {
  return StatusIs(absl::StatusCode::kInvalidArgument, HasSubstr(message));
}

TEST(Verify, AcceptsAGoodGraph) {
  EXPECT_OK(VerifyNodes({Input("x"), Silu(0)}, {{"y", 1}, {"z", 0}}));
}

TEST(Verify, RefusesAnOperandThatDoesNotPrecede) {
  EXPECT_THAT(VerifyNodes({Input("x"), Silu(1)}), Invalid("node 1: operand 1"));
  EXPECT_THAT(VerifyNodes({Input("x"), Silu(-1)}), Invalid("node 1: operand -1"));
}

TEST(Verify, RefusesAWrongShapeOrDtype) {
  Node wrong_shape = Silu(0);
  wrong_shape.shape = {5};
  EXPECT_THAT(VerifyNodes({Input("x"), wrong_shape}),
              Invalid("declared as f32[5], but it is f32[4]"));
  Node wrong_dtype = Silu(0);
  wrong_dtype.dtype = DType::kF16;
  EXPECT_THAT(VerifyNodes({Input("x"), wrong_dtype}), Invalid("declared as f16[4]"));
}

TEST(Verify, RefusesAWrongRate) {
  Node slow = Silu(0);
  slow.rate = Rate::kRequest;
  EXPECT_THAT(VerifyNodes({Input("x"), slow}), Invalid("fastest operand"));
  EXPECT_THAT(VerifyNodes({Input("x", Rate::kCheckpoint)}), Invalid("inputs are of"));
  Node weight{.op = Op::kWeight, .shape = {1}, .rate = Rate::kStep, .name = "w"};
  EXPECT_THAT(VerifyNodes({weight}), Invalid("inputs are of"));
}

TEST(Verify, RefusesNamesUsedTwice) {
  EXPECT_THAT(VerifyNodes({Input("x"), Input("x")}), Invalid("\"x\" is used twice"));
  EXPECT_THAT(VerifyNodes({Input("x")}, {{"y", 0}, {"y", 0}}), Invalid("two outputs"));
}

TEST(Verify, RefusesNamesThatTheTextCannotHold) {
  for (const char* name : {"", "a\"b", "a\\b", "a\nb", "\xc3\xa9"}) {
    EXPECT_THAT(VerifyNodes({Input(name)}), Invalid("printable")) << name;
    EXPECT_THAT(VerifyNodes({Input("x")}, {{name, 0}}), Invalid("printable")) << name;
  }
  EXPECT_THAT(VerifyNodes({Input(std::string(257, 'a'))}), Invalid("1 to 256"));
}

TEST(Verify, RefusesOutputsWithoutAValue) {
  EXPECT_THAT(VerifyNodes({Input("x")}, {}), Invalid("needs an output"));
  EXPECT_THAT(VerifyNodes({Input("x")}, {{"y", 1}}), Invalid("is value 1 of 1"));
  EXPECT_THAT(VerifyNodes({Input("x")}, {{"y", -1}}), Invalid("is value -1 of 1"));
}

TEST(Verify, AnOutputWithTheNameOfAnInputHasItsType) {
  EXPECT_OK(VerifyNodes({Input("x"), Silu(0)}, {{"x", 1}}));
  const Node shorter{.op = Op::kSlice,
                     .operands = {0},
                     .attributes = SliceAttributes{0, 0, 2},
                     .shape = {2},
                     .rate = Rate::kStep};
  EXPECT_THAT(
      VerifyNodes({Input("x"), shorter}, {{"x", 1}}),
      Invalid("output \"x\" updates the input of that name, which is f32[4], and is f32[2]"));
  GraphBuilder b;
  b.Output("x", b.Cast(b.Input("x", DType::kF32, {4}, Rate::kStep), DType::kF16));
  EXPECT_THAT(std::move(b).Build(), Invalid("updates the input"));
}

TEST(Verify, RefusesANamedInnerNode) {
  Node named = Silu(0);
  named.name = "s";
  EXPECT_THAT(VerifyNodes({Input("x"), named}), Invalid("only inputs and weights"));
}

TEST(Verify, RefusesConstantsThatDoNotFillTheirShapeOrAreNotNumbers) {
  Node constant{.op = Op::kConstant, .attributes = ConstantAttributes{{1}}, .shape = {2}};
  EXPECT_THAT(VerifyNodes({constant}), Invalid("has 1 values"));
  constant.attributes = ConstantAttributes{{1, std::nanf("")}};
  EXPECT_THAT(VerifyNodes({constant}), Invalid("NaN"));
  constant.attributes = {};
  EXPECT_THAT(VerifyNodes({constant}), Invalid("needs its values"));
  constant.dtype = DType::kF16;
  EXPECT_THAT(VerifyNodes({constant}), Invalid("must be f32"));
}

// A graph with one fused node around `body_nodes`, whose last one is the result.
absl::Status VerifyFused(std::vector<Node> body_nodes, std::string output = "result",
                         std::string kind = "kind") {
  const ValueId last = static_cast<ValueId>(body_nodes.size()) - 1;
  auto body = std::make_shared<const Graph>(std::move(body_nodes),
                                            std::vector<Output>{{std::move(output), last}});
  Node fused{.op = Op::kFused,
             .operands = {0},
             .attributes = FusedAttributes{kind, body},
             .shape = {4},
             .rate = Rate::kStep};
  return VerifyNodes({Input("x"), fused}, {{"y", 1}});
}

TEST(Verify, AcceptsAFusedNodeOfPrimitives) { EXPECT_OK(VerifyFused({Input("0"), Silu(0)})); }

TEST(Verify, RefusesBodiesThatBreakTheirRules) {
  EXPECT_THAT(VerifyFused({Input("0"), Silu(0)}, "y"), Invalid("named \"result\""));
  EXPECT_THAT(VerifyFused({Input("1"), Silu(0)}), Invalid("must be named \"0\""));
  EXPECT_THAT(VerifyFused({Input("0"), Input("1"), Silu(0)}), Invalid("2 inputs for 1 operands"));
  EXPECT_THAT(VerifyFused({Input("0", Rate::kRequest)}), Invalid("of the step rate"));
  EXPECT_THAT(VerifyFused({Input("0"), {.op = Op::kWeight, .shape = {4}, .name = "w"}}),
              Invalid("must not read weights"));
  EXPECT_THAT(VerifyFused({Input("0"), Silu(2)}), Invalid("body node 1"));
  EXPECT_THAT(VerifyFused({Input("0"), Silu(0)}, "result", "a\"b"), Invalid("printable"));
  Node wrong = Input("0");
  wrong.shape = {5};
  EXPECT_THAT(VerifyFused({wrong}), Invalid("input 0 of the body is f32[5]"));
}

TEST(Verify, RefusesAFusedNodeInABody) {
  auto inner = std::make_shared<const Graph>(std::vector<Node>{Input("0")},
                                             std::vector<Output>{{"result", 0}});
  Node fused{.op = Op::kFused,
             .operands = {0},
             .attributes = FusedAttributes{"k", inner},
             .shape = {4},
             .rate = Rate::kStep};
  EXPECT_THAT(VerifyFused({Input("0"), fused}), Invalid("must not hold a fused node"));
}

}  // namespace
}  // namespace latentd::graph
