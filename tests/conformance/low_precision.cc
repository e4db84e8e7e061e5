#include "tests/conformance/low_precision.h"

#include "absl/container/flat_hash_set.h"
#include "absl/strings/match.h"
#include "absl/strings/str_cat.h"
#include "core/backends/reference/reference_backend.h"
#include "tests/conformance/checks.h"
#include "tests/support/status_matchers.h"

namespace latentd::testing {
namespace {

using device::Buffer;
using device::DType;
using graph::Graph;
using graph::GraphBuilder;
using graph::Node;
using graph::Op;
using graph::Value;

bool IsLow(DType dtype) { return dtype == DType::kF16 || dtype == DType::kBF16; }

device::ConstBuffer Widened(const device::ConstBuffer& buffer) {
  if (!IsLow(buffer.dtype())) return buffer;
  const Buffer wide = device::Buffer::Allocate(DType::kF32, buffer.shape());
  const std::vector<double> values = ToDoubles(buffer);
  std::copy(values.begin(), values.end(), wide.as<float>().begin());
  return wide;
}

Graph BodyInDType(const GraphBuilder& b, const Node& fused, DType dtype);

Value AppendIn(GraphBuilder& b, Node node, DType dtype) {
  const bool leaf = node.op == Op::kInput || node.op == Op::kWeight;
  const bool stays =
      absl::StartsWith(node.name, "timesteps") || absl::StartsWith(node.name, "scales");
  if (leaf && node.dtype == DType::kF32 && !stays) node.dtype = dtype;
  if (auto* fused = std::get_if<graph::FusedAttributes>(&node.attributes)) {
    fused->body = std::make_shared<const Graph>(BodyInDType(b, node, dtype));
  }
  const bool always_f32 = node.op == Op::kConstant || node.op == Op::kTimestepEmbedding;
  const Value value = b.Append(std::move(node));
  return always_f32 ? b.Cast(value, dtype) : value;
}

// Its inputs are of the dtypes that the node's operands have.
Graph BodyInDType(const GraphBuilder& b, const Node& fused, DType dtype) {
  const Graph& body = *std::get<graph::FusedAttributes>(fused.attributes).body;
  GraphBuilder in_dtype;
  std::vector<Value> values;
  size_t input = 0;
  for (Node node : body.nodes()) {
    for (graph::ValueId& operand : node.operands) operand = values[operand].id;
    if (node.op == Op::kInput) {
      node.dtype = b.node({fused.operands[input++]}).dtype;
      values.push_back(in_dtype.Append(std::move(node)));
    } else {
      values.push_back(AppendIn(in_dtype, std::move(node), dtype));
    }
  }
  for (const graph::Output& output : body.outputs()) {
    in_dtype.Output(output.name, values[output.value]);
  }
  return std::move(in_dtype).Build().value();
}

Leaves Widened(const Leaves& leaves) {
  Leaves wide;
  for (const device::ConstBuffer& input : leaves.inputs) wide.inputs.push_back(Widened(input));
  for (const auto& [name, tensor] : leaves.weights) {
    wide.weights[name] = {Widened(tensor.data), tensor.file};
  }
  return wide;
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

std::vector<OpCase> CasesOfEveryDType() {
  const absl::flat_hash_set<Op> of_one = {Op::kCast, Op::kIncrement, Op::kSelect,
                                          Op::kSchedulerStep};
  std::vector<OpCase> cases;
  for (OpCase& c : CasesWithoutF8()) {
    if (!of_one.contains(c.op)) cases.push_back(std::move(c));
  }
  return cases;
}

std::vector<LowCase> LowCases() {
  std::vector<LowCase> cases;
  for (const OpCase& c : CasesOfEveryDType()) {
    for (DType dtype : {DType::kBF16, DType::kF16}) cases.emplace_back(c, dtype);
  }
  return cases;
}

std::string LowCaseName(const ::testing::TestParamInfo<LowCase>& info) {
  const auto& [c, dtype] = info.param;
  return absl::StrCat(c.name, "_", device::Name(dtype));
}

LowRun PrepareLow(const LowCase& c) {
  const PreparedCase p = Prepare(std::get<OpCase>(c));
  LowRun run = {std::get<DType>(c), nullptr, {}, {}};
  if (p.graph == nullptr) return run;
  run.graph = Share(InDType(*p.graph, run.dtype));
  run.leaves = RandomLeaves(*run.graph, /*seed=*/17);
  backends::reference::ReferenceBackend reference;
  auto expected = RunOn(reference, p.graph, Widened(run.leaves));
  EXPECT_OK(expected);
  if (expected.ok()) run.expected = *std::move(expected);
  return run;
}

void ExpectRounded(backends::Backend& backend, const LowRun& run, int roundings) {
  ASSERT_OK_AND_ASSIGN(const std::vector<Buffer> outputs, RunOn(backend, run.graph, run.leaves));
  ASSERT_EQ(outputs.size(), run.expected.size());
  for (size_t i = 0; i < outputs.size(); ++i) {
    const bool is_float = run.expected[i].dtype() == DType::kF32;
    EXPECT_EQ(outputs[i].dtype(), is_float ? run.dtype : run.expected[i].dtype());
    EXPECT_EQ(outputs[i].shape(), run.expected[i].shape());
    EXPECT_EQ(RoundedDifference(outputs[i], run.expected[i], roundings), "");
  }
}

}  // namespace latentd::testing
