#include "core/graph/verifier.h"

#include <algorithm>
#include <cmath>
#include <vector>

#include "absl/container/flat_hash_map.h"
#include "absl/container/flat_hash_set.h"
#include "absl/strings/ascii.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/string_view.h"
#include "core/base/errors/status_macros.h"
#include "core/base/text/text.h"
#include "core/graph/op_table.h"

namespace latentd::graph {
namespace {

constexpr size_t kMaxNameLength = 256;

template <typename... Parts>
absl::Status Invalid(const Parts&... parts) {
  return absl::InvalidArgumentError(absl::StrCat(parts...));
}

ValueType TypeOf(const Node& node) { return {node.dtype, node.shape}; }

absl::Status CheckConstant(const Node& leaf) {
  if (!leaf.name.empty()) return Invalid("a constant has no name");
  if (leaf.dtype != DType::kF32) return Invalid("a constant must be f32");
  const auto* constant = std::get_if<ConstantAttributes>(&leaf.attributes);
  if (constant == nullptr) return Invalid("a constant needs its values");
  if (constant->values.size() > kMaxConstantElements) {
    return Invalid("a constant of ", constant->values.size(), " elements exceeds ",
                   kMaxConstantElements);
  }
  if (static_cast<int64_t>(constant->values.size()) != leaf.shape.elements()) {
    return Invalid("a constant of shape ", leaf.shape.ToString(), " has ", constant->values.size(),
                   " values");
  }
  // Not-a-number has many bit patterns, of which the text form would keep one.
  if (std::any_of(constant->values.begin(), constant->values.end(),
                  [](float value) { return std::isnan(value); })) {
    return Invalid("a constant must not be NaN");
  }
  return absl::OkStatus();
}

// Walks one graph; `in_body` forbids what a fused node's body may not have.
class Verification {
 public:
  Verification(const Graph& graph, bool in_body) : graph_(graph), in_body_(in_body) {}

  absl::Status Run() {
    for (ValueId id = 0; id < graph_.size(); ++id) {
      if (absl::Status status = CheckNode(id); !status.ok()) {
        return Invalid(in_body_ ? "body node " : "node ", id, ": ", status.message());
      }
    }
    return CheckOutputs();
  }

 private:
  absl::Status CheckNode(ValueId id) {
    const Node& node = graph_.node(id);
    for (ValueId operand : node.operands) {
      if (operand < 0 || operand >= id) return Invalid("operand ", operand, " does not precede it");
    }
    return IsLeaf(node.op) ? CheckNamedLeaf(node) : CheckInner(node);
  }

  absl::Status CheckNamedLeaf(const Node& node) {
    if (!node.operands.empty()) return Invalid("a leaf has no operands");
    RETURN_IF_ERROR(CheckLeaf(node));
    if (in_body_ && node.op == Op::kWeight) return Invalid("a body must not read weights");
    if (in_body_ && node.op == Op::kInput && node.rate != Rate::kStep) {
      return Invalid("a body's inputs must be of the step rate");
    }
    if (node.op == Op::kConstant || leaves_.insert(node.name).second) return absl::OkStatus();
    return Invalid("the name \"", node.name, "\" is used twice");
  }

  absl::Status CheckInner(const Node& node) {
    if (!node.name.empty()) return Invalid("only inputs and weights have names");
    if (node.op == Op::kFused) RETURN_IF_ERROR(CheckFused(node));
    operands_.clear();
    for (ValueId operand : node.operands) {
      operands_.push_back(TypeOf(graph_.node(operand)));
    }
    ASSIGN_OR_RETURN(const ValueType type, InferType(node.op, operands_, node.attributes));
    if (TypeOf(node) != type) {
      return Invalid("declared as ", ToString(TypeOf(node)), ", but it is ", ToString(type));
    }
    if (node.rate != FastestOperand(node, graph_.nodes())) {
      return Invalid("its rate is not that of its fastest operand");
    }
    return absl::OkStatus();
  }

  absl::Status CheckFused(const Node& node) {
    if (in_body_) return Invalid("a body must not hold a fused node");
    const auto* fused = std::get_if<FusedAttributes>(&node.attributes);
    if (fused == nullptr || fused->body == nullptr) return Invalid("a fused node needs a body");
    RETURN_IF_ERROR(CheckName(fused->kind));
    RETURN_IF_ERROR(Verification(*fused->body, /*in_body=*/true).Run());
    if (fused->body->outputs()[0].name == "result") return absl::OkStatus();
    return Invalid("the body's output must be named \"result\"");
  }

  absl::Status CheckOutputs() const {
    if (graph_.outputs().empty()) return Invalid("a graph needs an output");
    absl::flat_hash_set<absl::string_view> names;
    for (const Output& output : graph_.outputs()) {
      RETURN_IF_ERROR(CheckName(output.name));
      if (output.value < 0 || output.value >= graph_.size()) {
        return Invalid("output \"", output.name, "\" is value ", output.value, " of ",
                       graph_.size());
      }
      if (!names.insert(output.name).second) {
        return Invalid("two outputs are named \"", output.name, "\"");
      }
    }
    return CheckUpdates(graph_.nodes(), graph_.outputs());
  }

  const Graph& graph_;
  const bool in_body_;
  absl::flat_hash_set<absl::string_view> leaves_;  // names
  std::vector<ValueType> operands_;                // types of the node at hand
};

}  // namespace

absl::Status CheckName(absl::string_view name) {
  const auto allowed = [](char c) { return absl::ascii_isprint(c) && c != '"' && c != '\\'; };
  if (!name.empty() && name.size() <= kMaxNameLength &&
      std::all_of(name.begin(), name.end(), allowed)) {
    return absl::OkStatus();
  }
  return Invalid("the name \"", Excerpt(name), "\" must be 1 to ", kMaxNameLength,
                 " printable ASCII characters without quotes and backslashes");
}

absl::Status CheckLeaf(const Node& leaf) {
  RETURN_IF_ERROR(CheckShape(leaf.shape));
  if (leaf.op == Op::kInput ? leaf.rate == Rate::kCheckpoint : leaf.rate != Rate::kCheckpoint) {
    return Invalid("inputs are of the request or the step rate, weights and constants are not");
  }
  if (leaf.op == Op::kConstant) return CheckConstant(leaf);
  if (!std::holds_alternative<std::monostate>(leaf.attributes)) {
    return Invalid("inputs and weights have no attributes");
  }
  return CheckName(leaf.name);
}

absl::Status CheckUpdates(absl::Span<const Node> nodes, absl::Span<const Output> outputs) {
  absl::flat_hash_map<absl::string_view, const Node*> inputs;
  for (const Node& node : nodes) {
    if (node.op == Op::kInput) inputs.emplace(node.name, &node);
  }
  for (const Output& output : outputs) {
    const auto input = inputs.find(output.name);
    if (input == inputs.end()) continue;
    const ValueType from = TypeOf(*input->second), to = TypeOf(nodes[output.value]);
    if (from == to) continue;
    return Invalid("output \"", output.name, "\" updates the input of that name, which is ",
                   ToString(from), ", and is ", ToString(to));
  }
  return absl::OkStatus();
}

Rate FastestOperand(const Node& node, absl::Span<const Node> nodes) {
  Rate rate = Rate::kCheckpoint;
  for (ValueId operand : node.operands) rate = std::max(rate, nodes[operand].rate);
  return rate;
}

absl::Status Verify(const Graph& graph) { return Verification(graph, /*in_body=*/false).Run(); }

}  // namespace latentd::graph
