// Runs a graph on a backend with random inputs and weights, the way the product does: plan, load
// with a weight set, run.
#pragma once

#include <random>
#include <vector>

#include "core/backends/backend.h"
#include "core/weights/weight_set.h"
#include "tests/conformance/naive.h"

namespace latentd::testing {

// Random contents by dtype and name: i64 are ids 0..4, in "wild..." far beyond; 8-bit floats are
// all codes in turn; "special..." has numbers like NaN among others, "line..." draws noise in every
// other row; "positive..." is in [0.5, 2], "large" in
// [-60, 60], "offset" in [99, 101], "timesteps..." in [0, 99]; "net/scaled..." keeps the size of
// what it is multiplied with (deviation 1 / sqrt(fan in)); everything else is in [-1, 1].
device::Buffer RandomBuffer(const std::string& name, device::DType dtype,
                            const device::Shape& shape, std::mt19937& random);

// A graph's leaves, filled.
struct Leaves {
  std::vector<device::ConstBuffer> inputs;  // in the graph's order
  weights::TensorMap weights;               // weights of the component "net", without the prefix
};
Leaves RandomLeaves(const graph::Graph& graph, unsigned seed);

// For EvaluateNaively.
Arrays ToArrays(const graph::Graph& graph, const Leaves& leaves);

// Any dtype of a float or an integer, widened.
std::vector<double> ToDoubles(const device::ConstBuffer& buffer);

// Plan, Load and one Run; `set` has the weights.
absl::StatusOr<std::vector<device::Buffer>> RunGraph(
    backends::Backend& backend, std::shared_ptr<const graph::Graph> graph,
    const weights::WeightSet& set, const std::vector<device::ConstBuffer>& inputs);

}  // namespace latentd::testing
