#include "tests/conformance/run_graph.h"

#include <cmath>
#include <cstring>
#include <limits>
#include <numeric>

#include "absl/strings/match.h"
#include "absl/strings/strip.h"
#include "core/backends/reference/evaluate.h"
#include "core/base/errors/status_macros.h"
#include "core/graph/graph_builder.h"
#include "tests/support/run_executable.h"
#include "tests/support/stored_weight.h"

namespace latentd::testing {
namespace {

using device::Buffer;
using device::DType;

struct Range {
  float low, high;
};
Range RangeOf(const std::string& name, const device::Shape& shape) {
  if (absl::StartsWith(name, "positive")) return {0.5f, 2};
  if (name == "large") return {-60, 60};
  if (name == "offset") return {99, 101};
  if (absl::StartsWith(name, "timesteps")) return {0, 99};
  if (!absl::StartsWith(name, "net/scaled")) return {-1, 1};
  const float fan_in = static_cast<float>(shape.elements() / shape[0]);
  return {-std::sqrt(3 / fan_in), std::sqrt(3 / fan_in)};
}

// The reference backend's cast, which the suite itself checks for f32.
absl::StatusOr<device::ConstBuffer> CastTo(const device::ConstBuffer& buffer, DType dtype) {
  graph::GraphBuilder b;
  b.Output("y", b.Cast(StoredWeight(b, "x", buffer.dtype(), buffer.shape()), dtype));
  ASSIGN_OR_RETURN(const graph::Graph graph, std::move(b).Build());
  return backends::reference::EvaluateRecipe(graph, {&buffer, 1});
}

// Some numbers become those that need care.
void MakeSpecial(Buffer& buffer, std::mt19937& random) {
  constexpr float kInfinity = std::numeric_limits<float>::infinity();
  constexpr float kSpecial[] = {NAN,   kInfinity, -kInfinity, 0,    -0.0f, 1,     -1,
                                1e30f, -1e30f,    1e-40f,     0.5f, -0.5f, 88.6f, -88.6f};
  std::uniform_int_distribution<size_t> which(0, 8 * std::size(kSpecial) - 1);
  for (float& value : buffer.as<float>()) {
    if (const size_t i = which(random); i < std::size(kSpecial)) value = kSpecial[i];
  }
}

// As graph::SchedulerLine has it, for odd rows of 27.
void MakeLines(Buffer& buffer) {
  for (int64_t row = 0; row < buffer.shape()[0]; ++row) {
    buffer.Rows(row, row + 1).as<float>()[2] = static_cast<float>(row % 2);
  }
}

void FillWild(Buffer& buffer, std::mt19937& random) {
  constexpr int64_t kLowest = std::numeric_limits<int64_t>::min();
  constexpr int64_t kWild[] = {kLowest, -1, 0, 1, 2, 4, 5, 1000, int64_t{1} << 60, -(kLowest + 1)};
  std::uniform_int_distribution<size_t> which(0, std::size(kWild) - 1);
  for (int64_t& id : buffer.as<int64_t>()) id = kWild[which(random)];
}

void FillInts(const std::string& name, Buffer& buffer, std::mt19937& random) {
  if (absl::StartsWith(name, "wild")) return FillWild(buffer, random);
  std::uniform_int_distribution<int> ids(0, 4);
  if (buffer.dtype() == DType::kI64) {
    for (int64_t& id : buffer.as<int64_t>()) id = ids(random);
  } else {
    for (uint8_t& byte : buffer.as<uint8_t>()) byte = static_cast<uint8_t>(50 * ids(random));
  }
}

}  // namespace

Buffer RandomBuffer(const std::string& name, DType dtype, const device::Shape& shape,
                    std::mt19937& random) {
  if (dtype == DType::kI64 || dtype == DType::kU8) {
    Buffer buffer = Buffer::Allocate(dtype, shape);
    FillInts(name, buffer, random);
    return buffer;
  }
  if (device::IsF8(dtype)) {
    const Buffer codes = Buffer::Allocate(dtype, shape);
    std::iota(codes.as<uint8_t>().begin(), codes.as<uint8_t>().end(), 0);
    return codes;
  }
  Buffer buffer = Buffer::Allocate(DType::kF32, shape);
  const Range range = RangeOf(name, shape);
  std::uniform_real_distribution<float> values(range.low, range.high);
  for (float& value : buffer.as<float>()) value = values(random);
  if (absl::StartsWith(name, "special")) MakeSpecial(buffer, random);
  if (absl::StartsWith(name, "line")) MakeLines(buffer);
  if (dtype == DType::kF32) return buffer;
  const device::ConstBuffer cast = CastTo(buffer, dtype).value();
  const Buffer copy = Buffer::Allocate(dtype, shape);
  std::memcpy(copy.data(), cast.data(), cast.bytes());
  return copy;
}

Leaves RandomLeaves(const graph::Graph& graph, unsigned seed) {
  std::mt19937 random(seed);
  Leaves leaves;
  for (const graph::Node& node : graph.nodes()) {
    if (node.op == graph::Op::kInput) {
      leaves.inputs.push_back(RandomBuffer(node.name, node.dtype, node.shape, random));
    } else if (node.op == graph::Op::kWeight) {
      leaves.weights[absl::StripPrefix(node.name, "net/")] = {
          RandomBuffer(node.name, node.dtype, node.shape, random), "made up"};
    }
  }
  return leaves;
}

std::vector<double> ToDoubles(const device::ConstBuffer& buffer) {
  std::vector<double> values;
  if (buffer.dtype() == DType::kI64) {
    for (int64_t value : buffer.as<int64_t>()) values.push_back(static_cast<double>(value));
  } else if (buffer.dtype() == DType::kU8) {
    for (uint8_t value : buffer.as<uint8_t>()) values.push_back(value);
  } else {
    const device::ConstBuffer wide =
        buffer.dtype() == DType::kF32 ? buffer : CastTo(buffer, DType::kF32).value();
    for (float value : wide.as<float>()) values.push_back(value);
  }
  return values;
}

Arrays ToArrays(const graph::Graph& graph, const Leaves& leaves) {
  Arrays arrays;
  const std::vector<graph::ValueId> inputs = graph.Select(graph::Op::kInput);
  for (size_t i = 0; i < inputs.size(); ++i) {
    const graph::Node& node = graph.node(inputs[i]);
    arrays[node.name] = {node.shape, ToDoubles(leaves.inputs[i])};
  }
  for (const auto& [name, tensor] : leaves.weights) {
    arrays["net/" + name] = {tensor.data.shape(), ToDoubles(tensor.data)};
  }
  return arrays;
}

absl::StatusOr<std::vector<Buffer>> RunGraph(backends::Backend& backend,
                                             std::shared_ptr<const graph::Graph> graph,
                                             const weights::WeightSet& set,
                                             const std::vector<device::ConstBuffer>& inputs) {
  ASSIGN_OR_RETURN(const backends::Plan plan, backend.MakePlan(*graph));
  ASSIGN_OR_RETURN(const auto executable, backend.Load(std::move(graph), plan, set));
  // On a GPU a session's kernels are launched one by one, then captured, then one launch.
  return RunOnDevice(*executable, inputs, backend.target().name == "cuda" ? 3 : 1);
}

}  // namespace latentd::testing
