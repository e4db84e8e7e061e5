// Runs the graphs of one network the way latentd does.
#pragma once

#include <map>
#include <memory>
#include <string>

#include "absl/status/statusor.h"
#include "core/backends/backend.h"
#include "core/base/clock.h"
#include "core/compiler/graph_store.h"
#include "core/device/buffer.h"
#include "core/graph/graph.h"
#include "core/weights/weight_set.h"
#include "core/weights/weight_store.h"

namespace latentd::golden {

using NamedBuffers = std::map<std::string, device::Buffer>;

class NetworkRunner {
 public:
  // `backend` must outlive the runner.
  NetworkRunner(backends::Backend& backend, const std::string& component,
                const weights::TensorMap& tensors);

  // The outputs by name. The request part, if there is one, is run for one row after the other.
  // INVALID_ARGUMENT if an input is not given.
  absl::StatusOr<NamedBuffers> Run(const graph::Graph& graph, const NamedBuffers& inputs);

 private:
  absl::StatusOr<NamedBuffers> RunPart(const graph::Graph& part, const NamedBuffers& inputs);
  absl::StatusOr<device::Buffer> RunRequestRows(const graph::Graph& request,
                                                const NamedBuffers& inputs);

  weights::WeightStore store_;
  std::shared_ptr<weights::WeightSet> weights_;
  compiler::GraphStore graphs_;
};

}  // namespace latentd::golden
