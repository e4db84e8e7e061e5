// The large inputs of a request: encoded files that its images are made of, and embeddings.
#pragma once

#include <cstddef>
#include <cstdint>
#include <memory>
#include <optional>
#include <string>
#include <vector>

namespace latentd::pipeline {

// A tensor as a request has it: nothing about it is checked.
struct HostTensor {
  enum class Type : uint8_t { kFloat32, kFloat16, kBFloat16 };

  Type type = Type::kFloat32;
  std::vector<int64_t> shape;  // the outermost dimension first
  std::string data;            // little-endian, row by row
};

// Embeddings: states that text encoders give for prompts, in place of these
// (core/pipeline/plan/embeds.h).
struct Embeds {
  std::optional<HostTensor> states;  // hidden states of all encoders together
  std::optional<HostTensor> pooled;  // the last encoder's

  bool given() const { return states || pooled; }
  size_t bytes() const {
    return (states ? states->data.size() : 0) + (pooled ? pooled->data.size() : 0);
  }
};

// Immutable once it is shared: the server makes it, and the images hold it until they have read it.
struct Inputs {
  size_t bytes() const {
    size_t others = 0;
    for (const std::string& control : control_images) others += control.size();
    return image.size() + mask_image.size() + latents.size() + prompt.bytes() + negative.bytes() +
           others + ip_adapter_bytes();
  }
  size_t ip_adapter_bytes() const {
    size_t all = 0;
    for (const std::vector<std::string>& images : ip_adapter_images) {
      for (const std::string& prompt : images) all += prompt.size();
    }
    for (const std::optional<HostTensor>& embeds : ip_adapter_embeds) {
      if (embeds) all += embeds->data.size();
    }
    return all;
  }

  // Image-to-image: a PNG, JPEG or WebP. Empty: none.
  std::string image = {};
  // The part of that image to draw over: likewise a picture, white there. Empty: all of it.
  std::string mask_image = {};
  // Images that the spec's controls read, in their order: likewise pictures, of any size.
  std::vector<std::string> control_images = {};
  // Images that are prompts, of each of the spec's ip_adapters: likewise.
  std::vector<std::vector<std::string>> ip_adapter_images = {};
  // Embeddings in the place of these (core/pipeline/plan/image_embeds.h). Of adapters beyond the
  // end of either list there are none.
  std::vector<std::optional<HostTensor>> ip_adapter_embeds = {};
  // Text-to-image, or a video, starts from these instead of what the seeds draw: a safetensors file
  // (latents_file.h), of all images or one for all. Empty: none.
  std::string latents = {};
  Embeds prompt = {};    // prompt_embeds and pooled_prompt_embeds
  Embeds negative = {};  // the negative ones
};
using SharedInputs = std::shared_ptr<const Inputs>;  // null: none at all

}  // namespace latentd::pipeline
