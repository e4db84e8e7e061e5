// Runs the graphs of one network the way latentd does.
#pragma once

#include <memory>
#include <string>

#include "absl/status/statusor.h"
#include "core/backends/backend.h"
#include "core/base/clock.h"
#include "core/compiler/graph_store.h"
#include "core/graph/graph.h"
#include "core/graph/precision.h"
#include "core/metrics/registry.h"
#include "core/weights/weight_set.h"
#include "core/weights/weight_store.h"
#include "tests/golden/network_case.h"

namespace latentd::golden {

class NetworkRunner {
 public:
  // `backend` must outlive the runner.
  NetworkRunner(backends::Backend& backend, const std::string& component,
                const weights::TensorMap& tensors, const graph::Precision& precision,
                compiler::CompileOptions options);

  // The outputs by name. The request part, if there is one, is run for one row after the other.
  // INVALID_ARGUMENT if an input is not given.
  absl::StatusOr<NamedBuffers> Run(const graph::Graph& graph, const NamedBuffers& inputs);

 private:
  absl::StatusOr<NamedBuffers> RunPart(graph::Graph part, const NamedBuffers& inputs);
  absl::StatusOr<NamedBuffers> RunRequestRows(const graph::Graph& request,
                                              const NamedBuffers& inputs);

  const graph::Precision precision_;
  metrics::Registry registry_;
  weights::WeightStore store_;
  std::shared_ptr<weights::WeightSet> weights_;
  compiler::GraphStore graphs_;
};

}  // namespace latentd::golden
