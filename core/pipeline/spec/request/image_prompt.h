// Images that a request draws with as prompts. Plain data.
#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <vector>

#include "absl/algorithm/container.h"
#include "core/pipeline/spec/request/block_scale.h"

namespace latentd::pipeline {

// An IP-Adapter of a request, with the images that it reads (Inputs::ip_adapter_images), or their
// embeddings (Inputs::ip_adapter_embeds).
struct ImagePrompt {
  std::string name;  // an adapter's
  // diffusers' set_ip_adapter_scale: a factor of what attention reads of the image; 1.
  std::optional<double> scale;
  // Factors beside that by blocks of the UNet, 0 for blocks that they do not name; empty: 1 for
  // all.
  std::vector<BlockScale> scales = {};

  // The rest is Pipeline::Resolve's to set: the stamp and the digest of the file that the request
  // was resolved for, its images, the tokens that all of these become, the bytes that the image
  // encoder reads and gives of one, and the shape of the latter.
  std::string stamp = {}, digest = {};
  int images = 0, tokens = 0;
  int64_t image_bytes = 0;
  std::vector<int64_t> image_shape = {};
  bool reads_embeds = false;  // the images are embeddings that the request brings
  // Both factors together, of each attention to the text (networks::CrossAttentionsOf).
  std::vector<double> attention_scales = {};

  // False: the images are those without it. REQUIRES: it is resolved.
  bool has_effect() const {
    return absl::c_any_of(attention_scales, [](double factor) { return factor != 0; });
  }
  bool operator==(const ImagePrompt&) const = default;
};

}  // namespace latentd::pipeline
