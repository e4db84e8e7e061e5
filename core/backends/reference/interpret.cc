#include "core/backends/reference/interpret.h"

#include <c10/core/InferenceMode.h>

#include <algorithm>
#include <stdexcept>

#include "core/backends/reference/operators.h"
#include "core/backends/reference/tensor_view.h"

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
  return row.compute(node, operands).to(ToScalarType(node.dtype)).contiguous();
}

bool IsHalf(device::DType dtype) {
  return dtype == device::DType::kF16 || dtype == device::DType::kBF16;
}

int64_t BytesOf(const Node& node) { return node.shape.elements() * device::SizeOf(node.dtype); }

// Bytes that Compute takes and frees again.
int64_t ScratchBytes(const Graph& graph, const Node& node) {
  if (node.op == graph::Op::kCast || node.op == graph::Op::kFused) return 0;
  const auto is_widened = [](device::DType dtype) { return IsHalf(dtype) || device::IsF8(dtype); };
  int64_t elements = is_widened(node.dtype) ? node.shape.elements() : 0;
  for (ValueId id : node.operands) {
    if (is_widened(graph.node(id).dtype)) elements += graph.node(id).shape.elements();
  }
  return elements * static_cast<int64_t>(sizeof(float));
}

// The value whose memory each value is in: a reshaped one shares its operand's.
std::vector<ValueId> Owners(const Graph& graph) {
  std::vector<ValueId> owners(graph.size());
  for (ValueId id = 0; id < graph.size(); ++id) {
    const Node& node = graph.node(id);
    owners[id] = node.op == graph::Op::kReshape ? owners[node.operands[0]] : id;
  }
  return owners;
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

size_t InterpretBytes(const Graph& graph, const std::vector<bool>& bound) {
  const std::vector<bool> computed = Computed(graph, bound);
  const std::vector<ValueId> owners = Owners(graph);
  std::vector<ValueId> last_use(graph.size());
  for (ValueId id = 0; id < graph.size(); ++id) {
    last_use[owners[id]] = id;
    for (ValueId operand : graph.node(id).operands) last_use[owners[operand]] = id;
  }
  for (const graph::Output& output : graph.outputs()) last_use[owners[output.value]] = graph.size();
  std::vector<int64_t> freed_at(graph.size() + 1);
  int64_t live = 0, peak = 0;
  for (ValueId id = 0; id < graph.size(); ++id) {
    const Node& node = graph.node(id);
    if (computed[id] && owners[id] == id) {
      live += BytesOf(node);
      freed_at[last_use[id]] += BytesOf(node);
    }
    if (computed[id]) peak = std::max(peak, live + ScratchBytes(graph, node));
    live -= freed_at[id];
  }
  return static_cast<size_t>(peak);
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
