// Images that a request draws with as prompts. Plain data.
#pragma once

#include <optional>
#include <string>

namespace latentd::pipeline {

// An IP-Adapter of a request, with the image that it reads (Inputs::ip_adapter_images).
struct ImagePrompt {
  std::string name;  // an adapter's
  // diffusers' set_ip_adapter_scale: a factor of what attention reads of the image; 1.
  std::optional<double> scale;
  // The stamp and the digest of the file that the request was resolved for, and the tokens that an
  // image becomes; Pipeline::Resolve sets them.
  std::string stamp = {}, digest = {};
  int tokens = 0;

  bool operator==(const ImagePrompt&) const = default;
};

}  // namespace latentd::pipeline
