// Adapters that requests name: files below the server's --adapters, which change a model or add
// words to its prompts. Plain data.
#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <vector>

#include "absl/strings/string_view.h"
#include "absl/types/span.h"

namespace latentd::pipeline {

enum class AdapterKind : uint8_t {
  kUnknown,
  kLora,
  kTextualInversion,
  kControlNet,
  kIpAdapter,
};

// "LoRA", "textual inversion", "ControlNet", "IP-Adapter", "unknown".
absl::string_view NameOf(AdapterKind kind);

// An adapter's file as it was last looked at.
struct AdapterFacts {
  bool is_served() const { return problem.empty(); }

  std::string name;  // its path below the folder, without the suffix of a file
  std::string path;
  AdapterKind kind = AdapterKind::kUnknown;
  std::string problem;  // the reason why requests cannot have it, as a sentence; empty: they can
  // The identity of its files: another one where they were edited or replaced since.
  std::string stamp;
  std::string digest;               // digest of its content; empty: it was not read yet
  std::vector<std::string> models;  // models that it is for, by their names
  std::vector<std::string> warnings;

  // A LoRA's: the largest rank (0: it has none), and the alpha of what has it; and the number of
  // weights that it changes.
  int rank = 0;
  double alpha = 0;
  // The same rank of one that changes linears alone, as a path beside each, which rows of a step
  // can have beside those of other LoRAs; 0: it is merged into weights.
  int path_rank = 0;
  int changes = 0;
  int vectors = 0;        // tokens that a textual inversion's word stands for
  int control_modes = 0;  // types of maps that a ControlNet-Union tells apart; 0: it is none
  // An IP-Adapter's: "base" or "plus", the tokens that an image becomes, the bytes that its encoder
  // reads and gives of one, and the shape of what it gives: [1024], or [257, 1280] of patches.
  std::string variant;
  int image_tokens = 0;
  int64_t image_bytes = 0;
  std::vector<int64_t> image_shape;
  // Path of the encoder's tensors below the folder of adapters; empty: none fits.
  std::string image_encoder;

  // Texts that its files say of themselves, for people; empty: they do not.
  std::string base_model;
  std::string trigger_phrase;
  std::vector<std::string> trigger_words;  // tags that it was trained with most, in that order
  std::string clip_skip, prediction_type;
  std::optional<double> recommended_weight;
  // Name of the preset (presets.h) that it brings to requests, as its operator says; empty: none.
  std::string preset;
};

// An adapter of a request, with factors of all that it changes.
struct Adapter {
  std::string name;
  std::optional<double> weight;               // factor of all; 1
  std::optional<double> text_encoder_weight;  // factor of the text encoders alone; `weight`
  // The stamp and the digest of the file that the request was resolved for; Pipeline::Resolve sets
  // them.
  std::string stamp = {}, digest = {};
  int path_rank = 0;        // AdapterFacts'; likewise
  std::string preset = {};  // the one that it brings, where that counts for the request; likewise

  double unet_factor() const { return weight.value_or(1); }
  double text_factor() const { return text_encoder_weight.value_or(unet_factor()); }
  bool operator==(const Adapter&) const = default;
};

// True if rows of a step can have all of the set as paths of at most so many ranks. What a set is
// decides, and never what else runs: the bytes of merged weights are others.
bool FitPaths(absl::Span<const Adapter> adapters, int ranks);

}  // namespace latentd::pipeline
