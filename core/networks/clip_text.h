// CLIPTextModel and CLIPTextModelWithProjection: token ids to the states of every layer and one
// pooled vector.
#pragma once

#include <vector>

#include "core/networks/config/clip_text_config.h"

namespace latentd::networks {

struct ClipTextInputs {
  Value
      input_ids;  // i64 [n, tokens], at most max_position_embeddings tokens, each below vocab_size
  // The state that is pooled: i64 [n], row * tokens + EosPosition(config, ids of the row).
  Value pooled_positions;
  // Vectors that stand in the place of some tokens' (textual inversions): f32 [n * tokens,
  // hidden_size]; and which: i64 [n, tokens], the row among the tokens' own and, behind all of
  // these, the given ones. kNone: there are none.
  Value given_vectors = graph::kNone;
  Value vector_rows = graph::kNone;
  // Added to the scores of attention, f32 [n, tokens, tokens] by query and key; kNone: each token
  // attends to itself and the ones before it.
  Value mask = graph::kNone;
};

struct ClipTextOutputs {
  // [n, tokens, hidden_size]: the embeddings, then what each layer made; num_hidden_layers + 1 of
  // them, none normed.
  std::vector<Value> hidden_states;
  Value last_hidden_state;  // [n, tokens, hidden_size]: the last one, normed
  Value pooled;  // [n, pooled_features()]: of last_hidden_state, projected if the kind is
                 // kWithProjection
};

// `component` is the prefix of the weights' names ("text_encoder"). Inputs that do not fit are a
// failure of the builder; the outputs are then placeholders.
ClipTextOutputs ClipText(GraphBuilder& builder, const ClipTextConfig& config,
                         absl::string_view component, const ClipTextInputs& inputs);

// One of its hidden states, normed as the last one is.
Value NormClipState(GraphBuilder& builder, const ClipTextConfig& config,
                    absl::string_view component, Value state);

}  // namespace latentd::networks
