#include "tests/conformance/fused_node.h"

#include "absl/strings/str_cat.h"

namespace latentd::testing {

using graph::GraphBuilder;
using graph::kNone;
using graph::Op;
using graph::Rate;
using graph::Value;

Value Fuse(GraphBuilder& b, const std::string& kind, const std::vector<Value>& operands,
           const std::function<Value(GraphBuilder&, const std::vector<Value>&)>& write) {
  GraphBuilder body;
  std::vector<Value> inputs;
  graph::Node node;
  node.op = Op::kFused;
  for (Value operand : operands) {
    inputs.push_back(body.Input(absl::StrCat(inputs.size()), b.node(operand).dtype,
                                b.node(operand).shape, Rate::kStep));
    node.operands.push_back(operand.id);
  }
  body.Output("result", write(body, inputs));
  absl::StatusOr<graph::Graph> built = std::move(body).Build();
  if (!built.ok()) b.Fail(built.status());
  if (!built.ok()) return kNone;
  node.attributes =
      graph::FusedAttributes{kind, std::make_shared<const graph::Graph>(*std::move(built))};
  return b.Append(std::move(node));
}

}  // namespace latentd::testing
