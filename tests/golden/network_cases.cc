#include "tests/golden/network_cases.h"

#include <algorithm>
#include <map>
#include <memory>
#include <nlohmann/json.hpp>
#include <string>
#include <utility>
#include <vector>

#include "absl/strings/match.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/strip.h"
#include "core/base/status_macros.h"
#include "core/models/clip_text_config.h"
#include "core/weights/safetensors.h"
#include "tests/golden/case_files.h"
#include "tests/golden/network_graphs.h"
#include "tests/golden/network_runner.h"
#include "tests/golden/synthetic_weights.h"

namespace latentd::golden {
namespace {

using device::Buffer;
using nlohmann::json;

constexpr absl::string_view kIn = "in.", kOut = "out.";

// The tensors whose names begin with `prefix`, by the rest of the name.
NamedBuffers TensorsOf(const weights::TensorMap& tensors, absl::string_view prefix) {
  NamedBuffers found;
  for (const auto& [name, tensor] : tensors) {
    if (absl::StartsWith(name, prefix))
      found[name.substr(prefix.size())] = weights::Aligned(tensor.data);
  }
  return found;
}

// For each row of the text encoder's ids, which row of all states is pooled.
absl::StatusOr<Buffer> PooledPositions(const std::string& config, models::ClipTextKind kind,
                                       const Buffer& ids) {
  ASSIGN_OR_RETURN(const auto parsed, models::ParseClipTextConfig(config, "config.json", kind));
  Buffer positions = Buffer::Allocate(device::DType::kI64, {ids.shape()[0]});
  const int64_t tokens = ids.shape()[1];
  for (int64_t row = 0; row < ids.shape()[0]; ++row) {
    const auto of_row = ids.as<int64_t>().subspan(row * tokens, tokens);
    positions.as<int64_t>()[row] = row * tokens + models::EosPosition(parsed, of_row);
  }
  return positions;
}

// The shapes of all weights of the graphs, by their names on disk.
std::map<std::string, device::Shape> WeightShapes(const std::vector<graph::Graph>& graphs) {
  std::map<std::string, device::Shape> shapes;
  for (const graph::Graph& graph : graphs) {
    for (graph::ValueId id : graph.Select(graph::Op::kWeight)) {
      const graph::Node& node = graph.node(id);
      shapes[std::string(absl::StripPrefix(node.name, absl::StrCat(kComponent, "/")))] = node.shape;
    }
  }
  return shapes;
}

// OK iff the weights are what diffusers lists for the network.
absl::Status CheckParameters(const std::string& path,
                             const std::map<std::string, device::Shape>& weights) {
  ASSIGN_OR_RETURN(const json listed, ReadJsonFile(path));
  for (const auto& [name, shape] : listed.items()) {
    auto found = weights.find(name);
    if (found == weights.end() || json(found->second.dims()) != shape) {
      return absl::FailedPreconditionError(absl::StrCat("the graph's weights lack ", name, " ",
                                                        shape.dump(), ", which the network has"));
    }
  }
  if (weights.size() == listed.size()) return absl::OkStatus();
  return absl::FailedPreconditionError(absl::StrCat(
      "the graphs want ", weights.size(), " weights, but the network has ", listed.size()));
}

// The worst relative distance of the case's outputs.
absl::StatusOr<double> WorstDistance(const NamedBuffers& expected, const NamedBuffers& actual) {
  double worst = 0;
  for (const auto& [name, tensor] : expected) {
    auto found = actual.find(name);
    if (found == actual.end())
      return absl::NotFoundError(absl::StrCat("the network has no output ", name));
    ASSIGN_OR_RETURN(const double distance, Distance(tensor, found->second, Scale::kRelative));
    if (!(distance <= worst)) worst = distance;
  }
  if (expected.empty()) return absl::NotFoundError("the case has no outputs");
  return worst;
}

absl::StatusOr<double> RunCase(const json& network_case, const std::string& path,
                               backends::Backend& backend) {
  const std::string class_name = network_case.value("class", ""),
                    config = network_case.value("config", json()).dump();
  ASSIGN_OR_RETURN(const weights::TensorMap tensors,
                   weights::ReadSafetensors(path + ".safetensors"));
  NamedBuffers inputs = TensorsOf(tensors, kIn);
  InputShapes shapes;
  for (const auto& [name, tensor] : inputs) shapes[name] = tensor.shape();
  ASSIGN_OR_RETURN(const auto graphs, BuildNetworkGraphs(class_name, config, shapes));
  if (const auto kind = models::ParseClipTextKind(class_name); kind.ok()) {
    ASSIGN_OR_RETURN(inputs[kPooledPositions], PooledPositions(config, *kind, inputs["input_ids"]));
  }
  const auto weights = WeightShapes(graphs);
  RETURN_IF_ERROR(CheckParameters(path + ".parameters.json", weights));
  ASSIGN_OR_RETURN(const weights::TensorMap made, MakeSyntheticWeights(weights));
  NetworkRunner runner(backend, kComponent, made);
  NamedBuffers outputs;
  for (const graph::Graph& graph : graphs) {
    ASSIGN_OR_RETURN(NamedBuffers of_graph, runner.Run(graph, inputs));
    outputs.merge(of_graph);
  }
  return WorstDistance(TensorsOf(tensors, kOut), outputs);
}

}  // namespace

void RunNetworkCases(const Options& options, backends::Backend& backend, Report& report) {
  const absl::StatusOr<json> cases = ReadJsonFile(options.cases + "/networks.json");
  if (!cases.ok()) return report.Failed("networks", cases.status());
  for (const json& network_case : *cases) {
    const std::string name = network_case.value("name", "");
    if (!options.Selects(name)) continue;
    if (network_case.value("full", false) && !options.full) {
      report.Skipped(name, "a whole network, which needs --full");
      continue;
    }
    const auto distance = RunCase(network_case, options.cases + "/networks/" + name, backend);
    if (!distance.ok()) {
      report.Failed(name, distance.status());
    } else {
      report.Measured(name, {{"of the largest value", *distance, kNetworkTolerance}});
    }
  }
}

}  // namespace latentd::golden
