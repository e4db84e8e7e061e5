#include "tests/conformance/checks.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <cmath>

#include "absl/strings/str_cat.h"
#include "core/graph/op_table.h"
#include "core/weights/weight_store.h"
#include "tests/conformance/tolerance.h"
#include "tests/support/status_matchers.h"

namespace latentd::testing {
namespace {

using device::Buffer;
using device::DType;

bool IsSame(double a, double b) { return a == b || (std::isnan(a) && std::isnan(b)); }

// Half the distance of two neighbours, relative to what lies between them.
double UnitRoundoff(DType dtype) { return dtype == DType::kBF16 ? 0x1p-8 : 0x1p-11; }

// Half of that distance where numbers are too small for it to be relative; what becomes infinite.
constexpr double kLeastF16 = 0x1p-25, kInfiniteF16 = 65520;

double LargestOf(const std::vector<double>& values) {
  double largest = 1;
  for (double value : values) {
    if (std::isfinite(value)) largest = std::max(largest, std::abs(value));
  }
  return largest;
}

}  // namespace

PreparedCase Prepare(const OpCase& c) {
  graph::GraphBuilder b;
  c.build(b);
  absl::StatusOr<graph::Graph> graph = std::move(b).Build();
  EXPECT_OK(graph) << c.name;
  if (!graph.ok()) return {};
  return {Share(*graph), RandomLeaves(*graph, /*seed=*/17)};
}

absl::StatusOr<std::vector<Buffer>> RunOn(backends::Backend& backend,
                                          std::shared_ptr<const graph::Graph> graph,
                                          const Leaves& leaves) {
  weights::WeightStore store(backend);
  weights::WeightSet set(&store);
  set.Add("net", leaves.weights);
  return RunGraph(backend, std::move(graph), set, leaves.inputs);
}

std::string Difference(const std::string& backend, const Buffer& actual,
                       const std::vector<double>& expected) {
  const Tolerance tolerance = ToleranceOf(backend, actual.dtype());
  const std::vector<double> values = ToDoubles(actual);
  if (values.size() != expected.size()) return "another number of elements";
  for (size_t i = 0; i < values.size(); ++i) {
    const double allowed = tolerance.abs + tolerance.rel * std::abs(expected[i]);
    if (IsSame(values[i], expected[i])) continue;
    if (std::abs(values[i] - expected[i]) <= allowed) continue;
    return absl::StrCat("element ", i, " is ", values[i], ", not ", expected[i]);
  }
  return "";
}

void ExpectOutputs(const std::string& backend, const absl::StatusOr<std::vector<Buffer>>& outputs,
                   const std::vector<Buffer>& expected) {
  ASSERT_OK(outputs);
  ASSERT_EQ(outputs->size(), expected.size());
  for (size_t i = 0; i < expected.size(); ++i) {
    EXPECT_EQ((*outputs)[i].shape(), expected[i].shape());
    EXPECT_EQ(Difference(backend, (*outputs)[i], ToDoubles(expected[i])), "");
  }
}

int RoundingsOf(const graph::Graph& graph) {
  int roundings = 0;
  for (const graph::Node& node : graph.nodes()) {
    const auto* fused = std::get_if<graph::FusedAttributes>(&node.attributes);
    roundings += fused != nullptr ? RoundingsOf(*fused->body) : !graph::IsLeaf(node.op);
  }
  return roundings;
}

std::string RoundedDifference(const Buffer& actual, const Buffer& expected, int roundings) {
  const std::vector<double> values = ToDoubles(actual), wanted = ToDoubles(expected);
  if (values.size() != wanted.size()) return "another number of elements";
  const Tolerance f32 = ToleranceOf("cpu", DType::kF32);
  const double largest = LargestOf(wanted);
  for (size_t i = 0; i < values.size(); ++i) {
    if (IsSame(values[i], wanted[i])) continue;
    const double size = std::abs(wanted[i]);
    const double scale = roundings > 1 ? (roundings + 1) * largest : size;
    const double allowed = actual.dtype() == DType::kU8 ? 0
                                                        : f32.abs + f32.rel * size + kLeastF16 +
                                                              UnitRoundoff(actual.dtype()) * scale;
    const bool infinite = actual.dtype() == DType::kF16 && size >= kInfiniteF16;
    if (infinite ? std::isinf(values[i]) : std::abs(values[i] - wanted[i]) <= allowed) continue;
    return absl::StrCat("element ", i, " is ", values[i], ", not ", wanted[i], " within ", allowed);
  }
  return "";
}

}  // namespace latentd::testing
