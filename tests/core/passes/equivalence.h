// Runs a graph and what passes made of it on the same leaves.
#pragma once

#include <vector>

#include "core/backends/reference/reference_backend.h"
#include "core/device/buffer.h"
#include "core/graph/graph.h"
#include "core/weights/weight_set.h"
#include "core/weights/weight_store.h"

namespace latentd::passes {

// The largest difference of two runs' outputs, relative to the largest value of each output.
double Distance(const std::vector<device::Buffer>& a, const std::vector<device::Buffer>& b);

// The reference backend with one set of weights and inputs.
class Runs {
 public:
  // `inputs` in the order of the graphs' inputs.
  Runs(const std::string& component, const weights::TensorMap& weights,
       std::vector<device::ConstBuffer> inputs);
  // Random leaves.
  explicit Runs(const graph::Graph& graph);

  // The graph's outputs; none, and a failed test, if it does not run.
  std::vector<device::Buffer> operator()(const graph::Graph& graph);

 private:
  backends::reference::ReferenceBackend backend_;
  weights::WeightStore store_;
  weights::WeightSet set_;
  std::vector<device::ConstBuffer> inputs_;
};

}  // namespace latentd::passes
