#include "core/backends/reference/interpret.h"

#include <c10/core/InferenceMode.h>

#include <stdexcept>

#include "core/backends/reference/operators.h"
#include "core/device/tensor_view.h"

namespace latentd::backends::reference {
namespace {

using graph::Graph;
using graph::Node;
using graph::ValueId;

Bindings Bind(const Graph& graph, graph::Op op, absl::Span<const at::Tensor> tensors) {
  Bindings values(graph.size());
  size_t next = 0;
  for (ValueId id : graph.Select(op)) values[id] = tensors[next++];
  return values;
}

bool IsHalf(const at::Tensor& tensor) {
  return tensor.scalar_type() == at::kHalf || tensor.scalar_type() == at::kBFloat16;
}

// f16 and bf16 are what values are kept in; what is computed is computed in f32 and rounded once.
at::Tensor Compute(const Node& node, const Bindings& values) {
  const Operator& row = OperatorOf(node.op);
  if (row.compute == nullptr) throw std::invalid_argument("no value is bound to " + node.name);
  // The nodes of a body do the same, each for itself.
  const bool as_it_is = node.op == graph::Op::kCast || node.op == graph::Op::kFused;
  std::vector<at::Tensor> operands;
  for (ValueId id : node.operands) {
    const at::Tensor& value = values[id];
    operands.push_back(!as_it_is && IsHalf(value) ? value.to(at::kFloat) : value);
  }
  return row.compute(node, operands).to(device::ToScalarType(node.dtype)).contiguous();
}

// How many computed nodes and outputs read each value.
std::vector<int> Readers(const Graph& graph, const std::vector<bool>& computed) {
  std::vector<int> readers(graph.size());
  for (ValueId id = 0; id < graph.size(); ++id) {
    if (!computed[id]) continue;
    for (ValueId operand : graph.node(id).operands) ++readers[operand];
  }
  for (const graph::Output& output : graph.outputs()) ++readers[output.value];
  return readers;
}

}  // namespace

Bindings BindInputs(const Graph& graph, absl::Span<const at::Tensor> tensors) {
  return Bind(graph, graph::Op::kInput, tensors);
}

Bindings BindWeights(const Graph& graph, absl::Span<const at::Tensor> tensors) {
  return Bind(graph, graph::Op::kWeight, tensors);
}

std::vector<bool> Computed(const Graph& graph, const std::vector<bool>& bound) {
  std::vector<bool> needed(graph.size());
  for (const graph::Output& output : graph.outputs()) needed[output.value] = true;
  for (ValueId id = graph.size() - 1; id >= 0; --id) {
    if (bound[id]) needed[id] = false;
    if (!needed[id]) continue;
    for (ValueId operand : graph.node(id).operands) needed[operand] = true;
  }
  return needed;
}

std::vector<at::Tensor> Interpret(const Graph& graph, Bindings values) {
  const c10::InferenceMode no_autograd;
  std::vector<bool> bound(graph.size());
  for (ValueId id = 0; id < graph.size(); ++id) bound[id] = values[id].defined();
  const std::vector<bool> computed = Computed(graph, bound);
  std::vector<int> readers = Readers(graph, computed);
  for (ValueId id = 0; id < graph.size(); ++id) {
    if (!computed[id]) continue;
    values[id] = Compute(graph.node(id), values);
    for (ValueId operand : graph.node(id).operands) {
      if (--readers[operand] == 0) values[operand].reset();
    }
  }
  std::vector<at::Tensor> outputs;
  for (const graph::Output& output : graph.outputs()) outputs.push_back(values[output.value]);
  return outputs;
}

}  // namespace latentd::backends::reference
