#include "tests/golden/synthetic_checkpoint.h"

#include <filesystem>
#include <map>
#include <nlohmann/json.hpp>
#include <utility>
#include <vector>

#include "absl/strings/match.h"
#include "absl/strings/str_cat.h"
#include "core/base/errors/status_macros.h"
#include "tests/golden/case_files.h"
#include "tests/golden/synthetic_weights.h"
#include "tests/support/safetensors_writer.h"

namespace latentd::golden {
namespace {

using nlohmann::json;

// `gains` multiply the weights of these names.
absl::StatusOr<std::vector<testing::TensorToWrite>> TensorsOf(const json& parameters,
                                                              const json& gains) {
  std::map<std::string, device::Shape> shapes;
  for (const auto& [name, dims] : parameters.items()) {
    shapes.emplace(name, device::Shape(dims.get<std::vector<int64_t>>()));
  }
  ASSIGN_OR_RETURN(const weights::TensorMap weights, MakeSyntheticWeights(shapes));
  std::vector<testing::TensorToWrite> tensors;
  for (const auto& [name, tensor] : weights) {
    const auto stored = tensor.data.as<float>();
    std::vector<float> values(stored.begin(), stored.end());
    const auto gain = gains.value(name, 1.0f);
    for (float& value : values) value *= gain;
    tensors.push_back(
        testing::F32Tensor(name, parameters[name].get<std::vector<int64_t>>(), std::move(values)));
  }
  return tensors;
}

absl::Status WriteComponent(const std::string& folder, const json& config, const json& parameters,
                            const json& gains) {
  ASSIGN_OR_RETURN(const std::vector<testing::TensorToWrite> tensors, TensorsOf(parameters, gains));
  // transformers does not write the class there.
  const bool is_diffusers = config.contains("_class_name");
  const char* file = is_diffusers ? "diffusion_pytorch_model.safetensors" : "model.safetensors";
  testing::WriteFile(folder + "/config.json", config.dump());
  testing::WriteSafetensors(absl::StrCat(folder, "/", file), tensors);
  return absl::OkStatus();
}

// Weights of the convolutions whose results are added to the UNet's, each multiplied alike.
json GainsOfZeros(const json& parameters, float gain) {
  json gains = json::object();
  for (const auto& [name, dims] : parameters.items()) {
    const bool is_zero = absl::StartsWith(name, "controlnet_down_blocks.") ||
                         absl::StartsWith(name, "controlnet_mid_block.");
    if (is_zero) gains[name] = gain;
  }
  return gains;
}

absl::Status WriteControlNets(const Options& options, const std::string& folder) {
  ASSIGN_OR_RETURN(const json all, ReadJsonFile(options.cases + "/controls.json"));
  for (const auto& [name, net] : all.items()) {
    const std::string list = absl::StrCat(options.cases, "/controls/", name, ".parameters.json");
    ASSIGN_OR_RETURN(const json parameters, ReadJsonFile(list));
    RETURN_IF_ERROR(WriteComponent(absl::StrCat(folder, "/", name), net.at("config"), parameters,
                                   GainsOfZeros(parameters, net.at("zero_gain").get<float>())));
  }
  return absl::OkStatus();
}

absl::Status WriteIpAdapters(const Options& options, const std::string& folder) {
  ASSIGN_OR_RETURN(const json all, ReadJsonFile(options.cases + "/ip_adapters.json"));
  for (const auto& [name, adapter] : all.items()) {
    const std::string list = absl::StrCat(options.cases, "/ip_adapters/", name, ".parameters.json");
    ASSIGN_OR_RETURN(const json parameters, ReadJsonFile(list));
    const std::string own = absl::StrCat(folder, "/", name);
    RETURN_IF_ERROR(WriteComponent(own + "/image_encoder", adapter.at("encoder"),
                                   parameters.at("image_encoder"), json::object()));
    ASSIGN_OR_RETURN(const std::vector<testing::TensorToWrite> tensors,
                     TensorsOf(parameters.at("ip_adapter"), json::object()));
    testing::WriteSafetensors(own + "/adapter.safetensors", tensors);
  }
  return absl::OkStatus();
}

}  // namespace

absl::StatusOr<std::unique_ptr<const SyntheticNets>> SyntheticNets::Write(const Options& options) {
  auto nets = std::make_unique<const SyntheticNets>();
  RETURN_IF_ERROR(WriteControlNets(options, nets->path()));
  RETURN_IF_ERROR(WriteIpAdapters(options, nets->path()));
  return nets;
}

absl::StatusOr<std::unique_ptr<const SyntheticCheckpoint>> SyntheticCheckpoint::Write(
    const Options& options, const std::string& name) {
  ASSIGN_OR_RETURN(const json all, ReadJsonFile(options.cases + "/checkpoints.json"));
  const auto found = all.find(name);
  if (found == all.end()) {
    return absl::NotFoundError(absl::StrCat("checkpoints.json has no checkpoint ", name));
  }
  // Networks, and their parameters; its own come over those of the one that it is like.
  json networks = json::object(), parameters = json::object();
  for (const std::string& from : {found->value("like", ""), name}) {
    if (from.empty()) continue;
    const std::string list = absl::StrCat(options.cases, "/checkpoints/", from, ".parameters.json");
    ASSIGN_OR_RETURN(const json listed, ReadJsonFile(list));
    networks.update(all.at(from).at("networks"));
    parameters.update(listed);
  }
  auto checkpoint = std::make_unique<const SyntheticCheckpoint>();
  const std::string root = checkpoint->path() + "/";
  testing::WriteFile(root + "model_index.json", found->at("model_index").dump());
  testing::WriteFile(root + "scheduler/scheduler_config.json", found->at("scheduler").dump());
  if (found->contains("feature_extractor")) {
    testing::WriteFile(root + "feature_extractor/preprocessor_config.json",
                       found->at("feature_extractor").dump());
  }
  const json gains = found->value("gains", json::object());
  for (const auto& [component, config] : networks.items()) {
    RETURN_IF_ERROR(WriteComponent(root + component, config, parameters.at(component),
                                   gains.value(component, json::object())));
  }
  const std::filesystem::path tokenizer = options.checkpoint + "/base/tokenizer";
  for (const auto& [component, of] : found->at("model_index").items()) {
    if (!absl::StartsWith(component, "tokenizer")) continue;
    std::filesystem::create_directory_symlink(std::filesystem::absolute(tokenizer),
                                              root + component);
  }
  return checkpoint;
}

}  // namespace latentd::golden
