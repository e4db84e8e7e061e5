// Names what was given where a checkpoint in the diffusers layout belongs, and says what to
// do with it: LoRAs, ControlNets, single files, parts of checkpoints, checkpoints of other models.
//
// Told by the class that a config.json or model_index.json names, by the container of a file
// (file_container.h), or by the names of the tensors in a safetensors file, of which only the
// header is read. Free functions without state: any thread.
#pragma once

#include <string>

#include "absl/strings/string_view.h"

namespace latentd::weights {

// "it is a LoRA; ...": of a file. For one with tensors that tell nothing it says how to convert a
// single-file checkpoint, and for one without what keeps it from being read.
std::string DescribeFile(const std::string& path);

// The same of a folder without a model_index.json; empty where nothing in it tells.
std::string DescribeFolder(const std::string& path);

// The same of a class of pipelines of diffusers: "a Flux checkpoint"; empty for one that is not of
// another model.
std::string DescribePipelineClass(absl::string_view class_name);

}  // namespace latentd::weights
