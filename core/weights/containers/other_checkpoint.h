// Names the folder that was given where a checkpoint belongs, and says what to do with it: LoRAs,
// ControlNets, parts of checkpoints, checkpoints of other models.
//
// Told by the class that a config.json or model_index.json names, or by a safetensors file in it,
// of which only the header is read. Free functions without state: any thread.
#pragma once

#include <nlohmann/json.hpp>
#include <string>

#include "absl/strings/string_view.h"

namespace latentd::weights {

// The class that a network's config.json names, as diffusers and transformers write it; empty:
// none.
std::string ClassNamedBy(const nlohmann::json& config);

// "it is a LoRA; ...": of a folder without a model_index.json; empty where nothing in it tells.
std::string DescribeFolder(const std::string& path);

// "it is one part of the checkpoint DIR: ...": of a path in a checkpoint's folder, or in one of its
// folders; else empty.
std::string DescribePlace(const std::string& path);

// The same of a class of pipelines of diffusers: "a Flux checkpoint"; empty for one that is not of
// another model.
std::string DescribePipelineClass(absl::string_view class_name);

}  // namespace latentd::weights
