// Purpose of a graph, in words for people, logs and metrics. No part of a key: two labels may name
// one artifact.
#pragma once

#include <optional>
#include <string>

#include "absl/strings/string_view.h"
#include "core/device/dtype.h"

namespace latentd::compiler {

struct GraphLabel {
  std::string model;  // by its name: "base"
  // text_encoder, text_encoder_2, image_encoder, unet, vae_decoder, vae_encoder, vae_tiny,
  // control_net.
  std::string component;
  // For a UNet: "request" (once a request) or "step", "step_2_chunks" for prompts of two,
  // "step_32_ranks" with low-rank paths, "step_shallow_controlled" and so on, or of a step that two
  // devices share "network" and "advance"; for a text encoder: "vectors" (for words of textual
  // inversions), "masked" (for weights below 1 of Compel's syntax), "masked_vectors" (for both), or
  // empty; for a vae_encoder: "sample" (once a picture), or empty; for a part of a decoder of
  // videos: "1_of_3" and so on; else empty. "lane" is no graph: the memory that steps run in.
  std::string part;
  // The bucket, in pixels; 0 and 0 where one graph serves every bucket.
  int width = 0;
  int height = 0;
  int rows = 1;
  bool fallback = false;  // the fp32 form of a graph that runs in a lesser precision
  device::DType dtype = device::DType::kF32;  // dtype of its products; not of all of them
  int frames = 1;  // frames of a video's row, or that are decoded together

  bool operator==(const GraphLabel&) const = default;
  // "base unet step 256x256 rows 2 bf16"; no model, a size of 0 and 0, and f32, are left out, and
  // so is one frame: "video vae_decoder 256x256x7 rows 1".
  std::string ToText() const;
  // Reads what ToText prints, where names are of at most 32 of a-z, 0-9 and _, and not empty; a
  // part is empty, or of at most 96 of these.
  static std::optional<GraphLabel> FromText(absl::string_view text);
};

}  // namespace latentd::compiler
