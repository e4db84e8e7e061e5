// A case of networks.json, ready to be evaluated.
#pragma once

#include <map>
#include <nlohmann/json.hpp>
#include <string>
#include <vector>

#include "absl/status/statusor.h"
#include "absl/strings/string_view.h"
#include "core/device/buffer.h"
#include "core/graph/graph.h"
#include "core/weights/stored_tensor.h"

namespace latentd::golden {

using NamedBuffers = std::map<std::string, device::ConstBuffer>;

struct NetworkCase {
  std::vector<graph::Graph> graphs;  // graphs of the component kComponent (network_graphs.h)
  NamedBuffers inputs, expected;     // by the names of the graphs' inputs and outputs
  weights::TensorMap weights;        // synthetic
};

// True for parameters that change nothing: attention to one token is the same whatever asks
// (core/networks/layers/transformer_spatio_temporal.h).
bool IsUnread(absl::string_view class_name, absl::string_view parameter);

// `path` is that of the case's files without their endings. FAILED_PRECONDITION if the graphs'
// weights are not those that diffusers lists for the network, but for those that are not read.
absl::StatusOr<NetworkCase> LoadNetworkCase(const nlohmann::json& network_case,
                                            const std::string& path);

}  // namespace latentd::golden
