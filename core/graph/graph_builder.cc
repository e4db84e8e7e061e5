#include "core/graph/graph_builder.h"

#include "absl/strings/str_cat.h"
#include "core/base/errors/status_macros.h"
#include "core/graph/op_table.h"
#include "core/graph/verifier.h"

namespace latentd::graph {
namespace {

// Result of a mistake: a rank that code which looks at shapes can index.
Node Placeholder() {
  return {.op = Op::kConstant, .attributes = ConstantAttributes{{0}}, .shape = {1, 1, 1, 1}};
}

absl::Status UsedTwice(absl::string_view name) {
  return absl::InvalidArgumentError(absl::StrCat("the name \"", name, "\" is used twice"));
}

}  // namespace

Value GraphBuilder::Push(Node node) {
  nodes_.push_back(std::move(node));
  return {static_cast<ValueId>(nodes_.size()) - 1};
}

Value GraphBuilder::Fallback(absl::Status status) {
  Fail(std::move(status));
  return Push(Placeholder());
}

void GraphBuilder::Fail(absl::Status status) {
  if (status_.ok()) status_ = std::move(status);
}

Value GraphBuilder::Append(Node node) {
  if (!status_.ok()) return Push(Placeholder());
  absl::Status status = IsLeaf(node.op) ? ResolveLeaf(node) : ResolveInner(&node);
  if (!status.ok()) return Fallback(std::move(status));
  return Push(std::move(node));
}

absl::Status GraphBuilder::ResolveLeaf(const Node& leaf) {
  if (absl::Status status = CheckLeaf(leaf); !status.ok()) {
    return absl::InvalidArgumentError(
        absl::StrCat(RowOf(leaf.op).name, " \"", leaf.name, "\": ", status.message()));
  }
  if (leaf.op == Op::kConstant) return absl::OkStatus();
  const ValueId id = static_cast<ValueId>(nodes_.size());
  return leaves_.emplace(leaf.name, id).second ? absl::OkStatus() : UsedTwice(leaf.name);
}

absl::Status GraphBuilder::ResolveInner(Node* node) const {
  std::vector<ValueType> operands;
  for (size_t i = 0; i < node->operands.size(); ++i) {
    const ValueId id = node->operands[i];
    if (id < 0 || id >= static_cast<ValueId>(nodes_.size())) {
      return absl::InvalidArgumentError(
          absl::StrCat(RowOf(node->op).name, ": operand ", i, " is absent"));
    }
    operands.push_back({nodes_[id].dtype, nodes_[id].shape});
  }
  ASSIGN_OR_RETURN(ValueType type, InferType(node->op, operands, node->attributes));
  node->dtype = type.dtype;
  node->shape = std::move(type.shape);
  node->rate = FastestOperand(*node, nodes_);
  node->name.clear();
  return absl::OkStatus();
}

Value GraphBuilder::Emit(Op op, std::vector<Value> operands, Attributes attributes) {
  Node node{.op = op, .attributes = std::move(attributes)};
  while (!operands.empty() && operands.back().id == kNone.id) operands.pop_back();
  for (Value operand : operands) node.operands.push_back(operand.id);
  return Append(std::move(node));
}

void GraphBuilder::Output(const std::string& name, Value value) {
  if (absl::Status status = CheckName(name); !status.ok()) return Fail(std::move(status));
  if (value.id < 0 || value.id >= static_cast<ValueId>(nodes_.size())) {
    return Fail(absl::InvalidArgumentError(absl::StrCat("output \"", name, "\" has no value")));
  }
  for (const graph::Output& output : outputs_) {
    if (output.name == name) return Fail(UsedTwice(name));
  }
  outputs_.push_back({name, value.id});
}

absl::StatusOr<Graph> GraphBuilder::Build() && {
  RETURN_IF_ERROR(status_);
  if (outputs_.empty()) return absl::InvalidArgumentError("a graph needs an output");
  RETURN_IF_ERROR(CheckUpdates(nodes_, outputs_));
  return Graph(std::move(nodes_), std::move(outputs_));
}

Value GraphBuilder::Input(const std::string& name, DType dtype, Shape shape, Rate rate) {
  return Append(
      {.op = Op::kInput, .dtype = dtype, .shape = std::move(shape), .rate = rate, .name = name});
}

Value GraphBuilder::Weight(const std::string& name, Shape shape) {
  if (const auto found = leaves_.find(name); found != leaves_.end()) {
    const Node& known = nodes_[found->second];
    if (known.op == Op::kWeight && known.shape == shape) return {found->second};
    return Fallback(absl::InvalidArgumentError(
        absl::StrCat("\"", name, "\" is used twice, with shapes ", known.shape.ToString(), " and ",
                     shape.ToString())));
  }
  return Append({.op = Op::kWeight, .shape = std::move(shape), .name = name});
}

Value GraphBuilder::Constant(std::vector<float> values, Shape shape) {
  return Append({.op = Op::kConstant,
                 .attributes = ConstantAttributes{std::move(values)},
                 .shape = std::move(shape)});
}

}  // namespace latentd::graph
