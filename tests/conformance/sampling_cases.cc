#include "absl/strings/str_cat.h"
#include "core/graph/op_table.h"
#include "tests/conformance/op_cases.h"

namespace latentd::testing {
namespace {

using device::DType;
using device::Shape;
using graph::GraphBuilder;
using graph::Op;
using graph::Rate;
using graph::Value;

OpCase OneOperand(const std::string& name, const graph::Node& node, const Shape& shape,
                  const std::string& input, DType dtype = DType::kF32) {
  return {absl::StrCat(graph::RowOf(node.op).name, "_", name), node.op, [=](GraphBuilder& b) {
            graph::Node one = node;
            one.operands = {b.Input(input, dtype, shape, Rate::kStep).id};
            b.Output("y", b.Append(one));
          }};
}

// Cases with a network's result in NHWC, and with a strided part.
std::vector<OpCase> ViewCases(const graph::Node& node) {
  const std::string op(graph::RowOf(node.op).name);
  const auto append = [node](GraphBuilder& b, Value x) {
    graph::Node one = node;
    one.operands = {x.id};
    b.Output("y", b.Append(one));
  };
  return {{op + "_permuted", node.op,
           [=](GraphBuilder& b) {
             const Value x = b.Input("special", DType::kF32, {2, 3, 5, 7}, Rate::kStep);
             append(b, b.Permute(x, {0, 2, 3, 1}));
           }},
          {op + "_sliced", node.op, [=](GraphBuilder& b) {
             const Value x = b.Input("special", DType::kF32, {2, 3, 5, 7}, Rate::kStep);
             append(b, b.Slice(x, 2, 1, 4));
           }}};
}

OpCase Select(const Shape& table) {
  return {absl::StrCat("select_of_", table[1]), Op::kSelect, [=](GraphBuilder& b) {
            const Value x = b.Input("x", DType::kF32, table, Rate::kStep);
            b.Output("y", b.Select(x, b.Input("wild", DType::kI64, {table[0]}, Rate::kStep)));
          }};
}

// Rows with and without noise, by turns.
OpCase SchedulerStep(int64_t rows, int64_t elements) {
  return {absl::StrCat("scheduler_step_", rows, "x", elements), Op::kSchedulerStep,
          [=](GraphBuilder& b) {
            const auto input = [&](const char* name, const Shape& shape) {
              return b.Input(name, DType::kF32, shape, Rate::kStep);
            };
            const Shape latents{rows, elements};
            const Value state = input("state", {rows, 4, elements});
            b.Output("state", b.SchedulerStep(state, input("output", latents),
                                              input("noise", latents), input("line", {rows, 27})));
          }};
}

void Append(std::vector<OpCase>& cases, std::vector<OpCase> more) {
  for (OpCase& c : more) cases.push_back(std::move(c));
}

}  // namespace

std::vector<OpCase> SamplingCases() {
  const graph::Node clamp{.op = Op::kClamp, .attributes = graph::ClampAttributes{-0.5f, 0.75f}};
  std::vector<OpCase> cases;
  for (const graph::Node& node :
       {clamp, graph::Node{.op = Op::kExp}, graph::Node{.op = Op::kToPixels}}) {
    cases.push_back(OneOperand("small", node, {3, 37}, "x"));
    cases.push_back(OneOperand("large", node, {5, 41}, "large"));
    cases.push_back(OneOperand("special", node, {3, 5, 7}, "special"));
    cases.push_back(OneOperand("scalar", node, {}, "x"));
    cases.push_back(OneOperand("many", node, {20000}, "special"));
    Append(cases, ViewCases(node));
  }
  const graph::Node is_finite{.op = Op::kIsFinite};
  cases.push_back(OneOperand("all", is_finite, {2, 4, 5, 7}, "large"));
  cases.push_back(OneOperand("some", is_finite, {16, 2, 3}, "special"));
  cases.push_back(OneOperand("one_dimension", is_finite, {33}, "special"));
  cases.push_back(OneOperand("long_row", is_finite, {1, 3, 10000}, "x"));
  Append(cases, ViewCases(is_finite));
  const graph::Node increment{.op = Op::kIncrement};
  cases.push_back(OneOperand("one", increment, {1}, "ids", DType::kI64));
  cases.push_back(OneOperand("many", increment, {3, 7}, "ids", DType::kI64));
  for (const Shape& table : {Shape{3, 5, 8}, Shape{9, 1, 3}, Shape{1, 2, 1}}) {
    cases.push_back(Select(table));
  }
  cases.push_back(SchedulerStep(1, 1));
  cases.push_back(SchedulerStep(2, 192));
  cases.push_back(SchedulerStep(3, 105));
  cases.push_back(SchedulerStep(2, 9000));
  return cases;
}

}  // namespace latentd::testing
