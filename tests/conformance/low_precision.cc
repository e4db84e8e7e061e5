#include "tests/conformance/low_precision.h"

#include "absl/container/flat_hash_set.h"
#include "absl/strings/match.h"

namespace latentd::testing {
namespace {

using device::DType;
using graph::Graph;
using graph::GraphBuilder;
using graph::Node;
using graph::Op;
using graph::Value;

bool IsLow(DType dtype) { return dtype == DType::kF16 || dtype == DType::kBF16; }

device::ConstBuffer Widened(const device::ConstBuffer& buffer) {
  if (!IsLow(buffer.dtype())) return buffer;
  const device::Buffer wide = device::Buffer::Allocate(DType::kF32, buffer.shape());
  const std::vector<double> values = ToDoubles(buffer);
  std::copy(values.begin(), values.end(), wide.as<float>().begin());
  return wide;
}

Value AppendIn(GraphBuilder& b, Node node, DType dtype) {
  const bool leaf = node.op == Op::kInput || node.op == Op::kWeight;
  if (leaf && node.dtype == DType::kF32 && !absl::StartsWith(node.name, "timesteps")) {
    node.dtype = dtype;
  }
  if (auto* fused = std::get_if<graph::FusedAttributes>(&node.attributes)) {
    fused->body = std::make_shared<const Graph>(InDType(*fused->body, dtype));
  }
  const bool always_f32 = node.op == Op::kConstant || node.op == Op::kTimestepEmbedding;
  const Value value = b.Append(std::move(node));
  return always_f32 ? b.Cast(value, dtype) : value;
}

}  // namespace

Graph InDType(const Graph& graph, DType dtype) {
  GraphBuilder b;
  std::vector<Value> values;
  for (Node node : graph.nodes()) {
    for (graph::ValueId& operand : node.operands) operand = values[operand].id;
    values.push_back(AppendIn(b, std::move(node), dtype));
  }
  for (const graph::Output& output : graph.outputs()) b.Output(output.name, values[output.value]);
  return std::move(b).Build().value();
}

Leaves Widened(const Leaves& leaves) {
  Leaves wide;
  for (const device::ConstBuffer& input : leaves.inputs) wide.inputs.push_back(Widened(input));
  for (const auto& [name, tensor] : leaves.weights) {
    wide.weights[name] = {Widened(tensor.data), tensor.file};
  }
  return wide;
}

std::vector<OpCase> CasesOfEveryDType() {
  const absl::flat_hash_set<Op> of_one = {Op::kCast, Op::kIncrement, Op::kSelect,
                                          Op::kSchedulerStep};
  std::vector<OpCase> cases;
  for (OpCase& c : AllOpCases()) {
    if (!of_one.contains(c.op)) cases.push_back(std::move(c));
  }
  return cases;
}

}  // namespace latentd::testing
