// The large inputs of a request: encoded files that its images are made of.
#pragma once

#include <cstddef>
#include <memory>
#include <string>

namespace latentd::pipeline {

// Immutable once it is shared: the server makes it, and the images hold it until they have read it.
struct Inputs {
  size_t bytes() const { return image.size() + mask_image.size() + latents.size(); }

  // Image-to-image: a PNG, JPEG or WebP. Empty: none.
  std::string image = {};
  // The part of that image to draw over: likewise a picture, white there. Empty: all of it.
  std::string mask_image = {};
  // Text-to-image starts from these instead of what the seeds draw: a safetensors file
  // (latents_file.h), of all images or one for all. Empty: none.
  std::string latents = {};
};
using SharedInputs = std::shared_ptr<const Inputs>;  // null: none at all

}  // namespace latentd::pipeline
