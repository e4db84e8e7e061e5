// The networks of the golden cases, as graphs that passes are run on.
#pragma once

#include <nlohmann/json.hpp>
#include <string>
#include <vector>

#include "absl/status/statusor.h"
#include "core/device/buffer.h"
#include "core/graph/graph.h"
#include "core/weights/stored_tensor.h"

namespace latentd::passes {

// One part of a network's graph, split by rate as when latentd serves it.
struct NetworkPart {
  std::string name;  // "unet_sd15_small step", "vae_small decoded"
  graph::Graph graph;
  std::vector<device::ConstBuffer> inputs;  // the case's, in the graph's order
};

struct Network {
  std::vector<NetworkPart> parts;
  weights::TensorMap weights;  // weights of the component golden::kComponent
};

// Names of the cases that are not whole SDXL networks, in order.
std::vector<std::string> GoldenNetworkNames();
absl::StatusOr<Network> LoadGoldenNetwork(const std::string& name);

// The graphs of any case, whole SDXL networks too, without weights and inputs.
absl::StatusOr<std::vector<graph::Graph>> BuildGoldenGraphs(const std::string& name);

}  // namespace latentd::passes
