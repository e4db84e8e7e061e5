// Images that a request draws with as prompts. Plain data.
#pragma once

#include <cstdint>
#include <optional>
#include <string>

namespace latentd::pipeline {

// An IP-Adapter of a request, with the images that it reads (Inputs::ip_adapter_images).
struct ImagePrompt {
  std::string name;  // an adapter's
  // diffusers' set_ip_adapter_scale: a factor of what attention reads of the image; 1.
  std::optional<double> scale;
  // The stamp and the digest of the file that the request was resolved for, its images, the tokens
  // that all of these become, and the bytes that the image encoder reads and gives of one;
  // Pipeline::Resolve sets them.
  std::string stamp = {}, digest = {};
  int images = 0, tokens = 0;
  int64_t image_bytes = 0;

  bool operator==(const ImagePrompt&) const = default;
};

}  // namespace latentd::pipeline
