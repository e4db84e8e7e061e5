// Runs the graphs of networks the way latentd does.
#pragma once

#include <functional>
#include <map>
#include <memory>
#include <string>

#include "absl/status/statusor.h"
#include "core/backends/backend.h"
#include "core/base/clock.h"
#include "core/compiler/graph_store.h"
#include "core/graph/graph.h"
#include "core/graph/precision.h"
#include "core/metrics/registry.h"
#include "core/weights/source.h"
#include "core/weights/weight_set.h"
#include "core/weights/weight_store.h"
#include "tests/golden/network_case.h"

namespace latentd::golden {

// Runs a graph that is loaded. INVALID_ARGUMENT if an input is not given.
using LoadedRun = std::function<absl::StatusOr<NamedBuffers>(const NamedBuffers& inputs)>;

class NetworkRunner {
 public:
  // `backend` must outlive the runner, and the runner what it loads.
  NetworkRunner(backends::Backend& backend, const std::string& component,
                const weights::TensorMap& tensors, compiler::CompileOptions options);
  // The same of several components, by their names.
  NetworkRunner(backends::Backend& backend,
                const std::map<std::string, weights::SourceMap>& components,
                compiler::CompileOptions options);

  // The request part, if there is one, is run for one row after the other at every run.
  absl::StatusOr<LoadedRun> Load(const graph::Graph& graph, const graph::Precision& precision);

  // The outputs by name.
  absl::StatusOr<NamedBuffers> Run(const graph::Graph& graph, const graph::Precision& precision,
                                   const NamedBuffers& inputs);

 private:
  NetworkRunner(backends::Backend& backend, compiler::CompileOptions options);

  absl::StatusOr<LoadedRun> LoadPart(graph::Graph part);

  metrics::Registry registry_;
  weights::WeightStore store_;
  std::shared_ptr<weights::WeightSet> weights_;
  compiler::GraphStore graphs_;
};

}  // namespace latentd::golden
