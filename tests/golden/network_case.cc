#include "tests/golden/network_case.h"

#include "absl/algorithm/container.h"
#include "absl/strings/match.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/strip.h"
#include "core/base/errors/status_macros.h"
#include "core/networks/config/clip_text_config.h"
#include "core/weights/containers/safetensors.h"
#include "tests/golden/case_files.h"
#include "tests/golden/network_graphs.h"
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
absl::StatusOr<Buffer> PooledPositions(const std::string& config, networks::ClipTextKind kind,
                                       const device::ConstBuffer& ids) {
  ASSIGN_OR_RETURN(const auto parsed, networks::ParseClipTextConfig(config, "config.json", kind));
  Buffer positions = Buffer::Allocate(device::DType::kI64, {ids.shape()[0]});
  const int64_t tokens = ids.shape()[1];
  for (int64_t row = 0; row < ids.shape()[0]; ++row) {
    const auto of_row = ids.as<int64_t>().subspan(row * tokens, tokens);
    positions.as<int64_t>()[row] = row * tokens + networks::EosPosition(parsed, of_row);
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

// OK iff the weights are what diffusers lists for the network, but for those that are not read.
absl::Status CheckParameters(const std::string& path, absl::string_view class_name,
                             const std::map<std::string, device::Shape>& weights) {
  ASSIGN_OR_RETURN(const json listed, ReadJsonFile(path));
  size_t read = 0;
  for (const auto& [name, shape] : listed.items()) {
    if (IsUnread(class_name, name)) continue;
    ++read;
    auto found = weights.find(name);
    if (found == weights.end() || json(found->second.dims()) != shape) {
      return absl::FailedPreconditionError(absl::StrCat("the graph's weights lack ", name, " ",
                                                        shape.dump(), ", which the network has"));
    }
  }
  if (weights.size() == read) return absl::OkStatus();
  return absl::FailedPreconditionError(
      absl::StrCat("the graphs want ", weights.size(), " weights, but the network has ", read));
}

}  // namespace

bool IsUnread(absl::string_view class_name, absl::string_view parameter) {
  constexpr absl::string_view kOfOneToken[] = {".norm2.", ".attn2.to_q.", ".attn2.to_k."};
  return class_name == "UNetSpatioTemporalConditionModel" &&
         absl::StrContains(parameter, "transformer_blocks.") &&
         absl::c_any_of(kOfOneToken,
                        [&](absl::string_view part) { return absl::StrContains(parameter, part); });
}

absl::StatusOr<NetworkCase> LoadNetworkCase(const json& network_case, const std::string& path) {
  const std::string class_name = network_case.value("class", ""),
                    config = network_case.value("config", json()).dump();
  ASSIGN_OR_RETURN(const weights::TensorMap tensors,
                   weights::ReadSafetensors(path + ".safetensors"));
  NetworkCase loaded{.inputs = TensorsOf(tensors, kIn), .expected = TensorsOf(tensors, kOut)};
  InputShapes shapes;
  for (const auto& [name, tensor] : loaded.inputs) shapes[name] = tensor.shape();
  ASSIGN_OR_RETURN(loaded.graphs, BuildNetworkGraphs(class_name, config, shapes));
  if (const auto kind = networks::ParseClipTextKind(class_name); kind.ok()) {
    ASSIGN_OR_RETURN(loaded.inputs[kPooledPositions],
                     PooledPositions(config, *kind, loaded.inputs["input_ids"]));
  }
  const auto weights = WeightShapes(loaded.graphs);
  RETURN_IF_ERROR(CheckParameters(path + ".parameters.json", class_name, weights));
  ASSIGN_OR_RETURN(loaded.weights, MakeSyntheticWeights(weights));
  return loaded;
}

}  // namespace latentd::golden
