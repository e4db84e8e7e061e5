// The name of one of a model's graphs: which of its networks, and at what size.
#pragma once

#include <cstdint>
#include <utility>
#include <vector>

namespace latentd::pipeline {

enum class GraphKind : uint8_t {
  kText,            // a text encoder, by its index; of videos the image encoder
  kMaskedText,      // likewise, for the blends of prompts (core/families/family/family.h)
  kRequest,         // the part of a step that depends on the prompt alone (core/graph/split.h)
  kStep,            // step_graph.h
  kNetwork,         // a step's prediction alone; and
  kAdvance,         // the rest of it
  kDecode,          // vae_graph.h, as are the following
  kDecodeFallback,  // kDecode in f32, for results of it that are not finite
  kEncode,
  kSample,
  kPreview,  // kDecode by the tiny VAE
  kHint,     // by a ControlNet (control_graph.h), as are the following
  kControlRequest,
  kControl,
  kImageEncoder,  // by an IP-Adapter (image_prompt_graph.h), as is the following; of no size
  kImagePrompt,
};

// Tokens of the images that are prompts, for each IP-Adapter, the fewest first; empty: none is.
using ImageTokens = std::vector<int>;

// Part that deep features (core/networks/unet_2d_condition.h) have in a step.
enum class DeepFeatures : uint8_t {
  kNone,   // the step computes all, and keeps nothing
  kGiven,  // likewise, and they are an output: a full step
  kRead,  // they are an input, and nothing that is needed for them alone is computed: a shallow one
};

// Rows of an evaluation and the size of its latents, the same for all rows; chunks of their
// prompts; ranks of their low-rank paths; and tokens of the images that are prompts too.
struct StepShape {
  int rows = 1;
  int height = 0;
  int width = 0;
  int chunks = 1;
  int ranks = 0;   // 0: rows have no paths, and the graph no ports for them
  int frames = 1;  // frames of a video; for kDecode and its fallback, those decoded together
  // Empty: rows read no image, and the graph has no port for one.
  ImageTokens image_tokens = {};
  DeepFeatures deep = DeepFeatures::kNone;

  bool operator==(const StepShape&) const = default;
};

struct GraphName {
  GraphKind kind = GraphKind::kStep;
  // Text graphs and kRequest have one for all sizes; only kStep and its parts have more rows than
  // one, only kStep ranks, image tokens or deep features, and only kStep, kNetwork and kRequest
  // more chunks; kControl and kControlRequest are like these. Rows of kImagePrompt are the images
  // whose tokens it joins.
  StepShape shape = {};
  int encoder = 0;             // index of a kText or kMaskedText
  bool takes_vectors = false;  // one of these, whose tokens may have vectors of their own
  bool controlled = false;     // a kStep that reads what control networks add
  // The part of the decoder that a kDecode of videos runs, from 1 on; 0: all of it.
  int part = 0;

  bool operator==(const GraphName&) const = default;
  template <typename H>
  friend H AbslHashValue(H h, const GraphName& name) {
    const auto& [rows, height, width, chunks, ranks, frames, image_tokens, deep] = name.shape;
    return H::combine(std::move(h), name.kind, rows, height, width, chunks, ranks, frames,
                      image_tokens, deep, name.encoder, name.takes_vectors, name.controlled,
                      name.part);
  }
};

}  // namespace latentd::pipeline
