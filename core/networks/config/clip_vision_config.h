// The fields that transformers' CLIPVisionModelWithProjection reads from its config.json. A value
// beyond that is an error that names it.
#pragma once

#include <cstdint>
#include <string>
#include <vector>

#include "absl/status/statusor.h"
#include "absl/strings/string_view.h"
#include "core/networks/layers/layers.h"

namespace latentd::networks {

struct ClipVisionConfig {
  int64_t num_channels = 3;
  int64_t image_size = 224;  // pixels of a side
  int64_t patch_size = 32;
  int64_t hidden_size = 768;
  int64_t intermediate_size = 3072;
  int64_t projection_dim = 512;
  int64_t num_hidden_layers = 12;
  int64_t num_attention_heads = 12;
  Activation activation = Activation::kQuickGelu;
  double layer_norm_eps = 1e-5;
  std::vector<std::string> unknown_fields = {};  // ConfigReader's

  // Patches of a side; pixels that are left over are not read.
  int64_t patches() const { return image_size / patch_size; }
  // One for the image as a whole, and one for each patch.
  int64_t tokens() const { return 1 + patches() * patches(); }
};

// `source` names the file or component in errors.
absl::StatusOr<ClipVisionConfig> ParseClipVisionConfig(absl::string_view json,
                                                       absl::string_view source);

}  // namespace latentd::networks
