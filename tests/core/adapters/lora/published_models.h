// Models as they are published, by the lists in tests/core/weights/names, without data.
#pragma once

#include <set>
#include <string>
#include <utility>
#include <vector>

#include "absl/container/btree_map.h"
#include "absl/strings/match.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/strip.h"
#include "core/device/shape.h"
#include "tests/support/published_tensors.h"

namespace latentd::adapters {

// A list, and the component that it is.
struct PublishedPart {
  std::string list;
  std::string component;
};

struct PublishedModel {
  std::string name;
  std::vector<PublishedPart> parts;
};

inline std::vector<PublishedModel> PublishedModels() {
  return {
      {"SD 1.5", {{"unet_sd15", "unet"}, {"clip_l", "text_encoder"}}},
      {"SD 2.1", {{"unet_sd21", "unet"}, {"open_clip_h", "text_encoder"}}},
      {"SDXL",
       {{"unet_sdxl", "unet"}, {"clip_l", "text_encoder"}, {"open_clip_g", "text_encoder_2"}}},
      {"refiner", {{"unet_sdxl_refiner", "unet"}, {"open_clip_g", "text_encoder_2"}}},
      {"SSD-1B",
       {{"unet_ssd_1b", "unet"}, {"clip_l", "text_encoder"}, {"open_clip_g", "text_encoder_2"}}},
      {"Vega",
       {{"unet_vega", "unet"}, {"clip_l", "text_encoder"}, {"open_clip_g", "text_encoder_2"}}},
      {"Koala 1B",
       {{"unet_koala_1b", "unet"}, {"clip_l", "text_encoder"}, {"open_clip_g", "text_encoder_2"}}},
      {"Koala 700M",
       {{"unet_koala_700m", "unet"},
        {"clip_l", "text_encoder"},
        {"open_clip_g", "text_encoder_2"}}},
  };
}

// Shapes of the model's weights by name. Rows and transposes of what is stored have its shape,
// which no test of these reads.
inline absl::btree_map<std::string, device::Shape> ShapesOf(const PublishedModel& model) {
  absl::btree_map<std::string, device::Shape> shapes;
  for (const PublishedPart& part : model.parts) {
    for (const testing::PublishedTensor& tensor : testing::ReadPublishedTensors(part.list)) {
      for (const auto& [name, how] : tensor.wanted) {
        shapes.emplace(absl::StrCat(part.component, "/", name), tensor.shape);
      }
    }
  }
  return shapes;
}

// A module of a list: its path in a single file, and in diffusers or transformers.
struct PublishedModule {
  std::string stored;
  std::vector<std::string> wanted;
};

// Modules of a list that have a weight, but for embeddings, which OpenCLIP calls otherwise.
inline std::vector<PublishedModule> ModulesOf(const std::string& list) {
  std::vector<PublishedModule> modules;
  for (const testing::PublishedTensor& tensor : testing::ReadPublishedTensors(list)) {
    absl::string_view stored = tensor.stored;
    if (!absl::ConsumeSuffix(&stored, ".weight") && !absl::ConsumeSuffix(&stored, "_weight")) {
      continue;
    }
    PublishedModule& module = modules.emplace_back();
    module.stored = std::string(stored);
    for (const auto& [name, how] : tensor.wanted) {
      module.wanted.emplace_back(absl::StripSuffix(name, ".weight"));
    }
  }
  return modules;
}

}  // namespace latentd::adapters
