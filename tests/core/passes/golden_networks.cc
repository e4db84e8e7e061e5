#include "tests/core/passes/golden_networks.h"

#include <random>

#include "absl/strings/str_cat.h"
#include "absl/strings/strip.h"
#include "core/base/errors/status_macros.h"
#include "core/graph/split.h"
#include "core/weights/containers/safetensors.h"
#include "tests/conformance/run_graph.h"
#include "tests/golden/case_files.h"
#include "tests/golden/network_case.h"
#include "tests/golden/network_graphs.h"
#include "tests/support/source_directory.h"

namespace latentd::passes {
namespace {

using device::Buffer;
using graph::Graph;
using nlohmann::json;

constexpr unsigned kSeed = 7;
const std::string kCases = ::latentd::testing::SourcePath("tests/golden");

absl::StatusOr<json> Cases() { return golden::ReadJsonFile(kCases + "/networks.json"); }

absl::StatusOr<json> CaseOf(const std::string& name) {
  ASSIGN_OR_RETURN(const json cases, Cases());
  for (const json& network_case : cases) {
    if (network_case.value("name", "") == name) return network_case;
  }
  return absl::NotFoundError(absl::StrCat("there is no network case ", name));
}

// Without their endings.
std::string FilesOf(const std::string& name) { return kCases + "/networks/" + name; }

// A request part takes one row, a step part what request parts made, which is random here.
absl::StatusOr<std::vector<device::ConstBuffer>> InputsOf(const Graph& graph,
                                                          const golden::NamedBuffers& inputs) {
  std::mt19937 random(kSeed);
  std::vector<device::ConstBuffer> found;
  for (graph::ValueId id : graph.Select(graph::Op::kInput)) {
    const graph::Node& node = graph.node(id);
    const auto input = inputs.find(node.name);
    if (input == inputs.end()) {
      found.push_back(testing::RandomBuffer(node.name, node.dtype, node.shape, random));
    } else {
      found.push_back(input->second.Rows(0, node.shape[0]));
    }
  }
  return found;
}

absl::Status AddParts(const std::string& name, const Graph& graph,
                      const golden::NamedBuffers& inputs, Network* network) {
  const std::string output = graph.outputs()[0].name;
  ASSIGN_OR_RETURN(graph::SplitGraphs split, graph::SplitByRate(graph));
  const auto add = [&](const std::string& part, Graph of_part) -> absl::Status {
    ASSIGN_OR_RETURN(std::vector<device::ConstBuffer> given, InputsOf(of_part, inputs));
    network->parts.push_back({absl::StrCat(name, " ", part), std::move(of_part), std::move(given)});
    return absl::OkStatus();
  };
  if (!split.request) return add(output, std::move(split.step));
  RETURN_IF_ERROR(add("request", *std::move(split.request)));
  return add("step", std::move(split.step));
}

}  // namespace

std::vector<std::string> GoldenNetworkNames() {
  std::vector<std::string> names;
  const absl::StatusOr<json> cases = Cases();
  if (!cases.ok()) return names;
  for (const json& network_case : *cases) {
    if (!network_case.value("full", false)) names.push_back(network_case.value("name", ""));
  }
  return names;
}

absl::StatusOr<Network> LoadGoldenNetwork(const std::string& name) {
  ASSIGN_OR_RETURN(const json network_case, CaseOf(name));
  ASSIGN_OR_RETURN(golden::NetworkCase loaded,
                   golden::LoadNetworkCase(network_case, FilesOf(name)));
  Network network;
  for (const Graph& graph : loaded.graphs) {
    RETURN_IF_ERROR(AddParts(name, graph, loaded.inputs, &network));
  }
  network.weights = std::move(loaded.weights);
  return network;
}

absl::StatusOr<std::vector<Graph>> BuildGoldenGraphs(const std::string& name) {
  ASSIGN_OR_RETURN(const json network_case, CaseOf(name));
  ASSIGN_OR_RETURN(const weights::TensorMap tensors,
                   weights::ReadSafetensors(FilesOf(name) + ".safetensors"));
  golden::InputShapes shapes;
  for (const auto& [key, tensor] : tensors) {
    absl::string_view input = key;
    if (absl::ConsumePrefix(&input, "in.")) shapes[std::string(input)] = tensor.data.shape();
  }
  return golden::BuildNetworkGraphs(network_case.value("class", ""),
                                    network_case.value("config", json()).dump(), shapes);
}

}  // namespace latentd::passes
