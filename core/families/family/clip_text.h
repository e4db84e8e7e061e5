// Text encoders of CLIP, as families with UNets use them: a graph for each encoder, which gives the
// state of one of its layers, and the inputs of that graph for a prompt.
//
// Pure functions.
#pragma once

#include <cstdint>
#include <string>
#include <vector>

#include "absl/strings/string_view.h"
#include "core/families/family/family.h"
#include "core/graph/graph_builder.h"

namespace latentd::families {

// The input of the request graph for the hidden states of that text encoder:
// "encoder_hidden_states.text_encoder". By its component, so that a refiner's encoder is the graph
// of the base's second one.
std::string HiddenStatesInput(absl::string_view component);

struct ClipState {
  graph::Value state;   // [1, tokens, features]
  graph::Value pooled;  // [1, channels]
};

// Adds the encoder with its inputs, "input_ids" i64 [1, tokens], "pooled_position" i64 [1] and
// "layer" i64 [1]: the state is that of the layer, without the last norm (0: the embeddings).
ClipState EncodeClip(graph::GraphBuilder& builder, const TextEncoder& encoder);

// Adds the outputs: HiddenStatesInput of the component, "text_embeds" if there is a pooled state,
// and "finite" of both.
void OutputClip(graph::GraphBuilder& builder, const TextEncoder& encoder, const ClipState& state);

// An encoder's tokens of a prompt.
struct ClipPrompt {
  std::vector<HostInput> inputs;  // inputs of its graph
  int64_t dropped_tokens = 0;
};

ClipPrompt TokenizeForClip(const TextEncoder& encoder, const std::string& prompt, int64_t layer);

// Adds the request inputs for the hidden states of all encoders, for so many rows. Returns them
// joined along the features, [rows, tokens, features].
graph::Value JoinHiddenStates(graph::GraphBuilder& builder, const ModelConfigs& configs,
                              int64_t rows);

}  // namespace latentd::families
