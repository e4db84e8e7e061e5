#include "tests/core/passes/equivalence.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <cmath>
#include <limits>

#include "tests/conformance/run_graph.h"
#include "tests/support/status_matchers.h"

namespace latentd::passes {
namespace {

using device::Buffer;

constexpr unsigned kSeed = 11;

}  // namespace

double Distance(const std::vector<Buffer>& a, const std::vector<Buffer>& b) {
  if (a.size() != b.size()) return std::numeric_limits<double>::infinity();
  double distance = 0;
  for (size_t i = 0; i < a.size(); ++i) {
    const std::vector<double> x = testing::ToDoubles(a[i]), y = testing::ToDoubles(b[i]);
    double largest = 0, difference = 0;
    for (size_t j = 0; j < x.size(); ++j) {
      largest = std::max(largest, std::abs(x[j]));
      // A NaN anywhere stays.
      if (!(std::abs(x[j] - y[j]) <= difference)) difference = std::abs(x[j] - y[j]);
    }
    EXPECT_GT(largest, 1e-3);  // a graph of zeros would show nothing
    if (!(difference / largest <= distance)) distance = difference / largest;
  }
  return distance;
}

Runs::Runs(const std::string& component, const weights::TensorMap& weights,
           std::vector<device::ConstBuffer> inputs)
    : store_(backend_), set_(&store_), inputs_(std::move(inputs)) {
  set_.Add(component, weights);
}

Runs::Runs(const graph::Graph& graph)
    : Runs("net", testing::RandomLeaves(graph, kSeed).weights,
           testing::RandomLeaves(graph, kSeed).inputs) {}

std::vector<Buffer> Runs::operator()(const graph::Graph& graph) {
  auto outputs =
      testing::RunGraph(backend_, std::make_shared<const graph::Graph>(graph), set_, inputs_);
  EXPECT_OK(outputs);
  return outputs.ok() ? *std::move(outputs) : std::vector<Buffer>();
}

}  // namespace latentd::passes
