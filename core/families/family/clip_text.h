// Text encoders of CLIP, as families with UNets use them: a graph for each encoder, which gives the
// state of one of its layers, and the inputs of that graph for a prompt.
//
// Pure functions.
#pragma once

#include <cstdint>
#include <string>
#include <vector>

#include "absl/status/status.h"
#include "absl/strings/string_view.h"
#include "absl/types/span.h"
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
// "layer" i64 [1]: the state is that of the layer, without the last norm (0: the embeddings). One
// that takes vectors has "given_vectors" [tokens * features] and "vector_rows" i64 [1, tokens] too,
// a masked one "mask" f32 [1, tokens, tokens] (networks::ClipTextInputs) and no pooled state.
ClipState EncodeClip(graph::GraphBuilder& builder, const TextEncoder& encoder,
                     const TextVariant& variant);

// Adds the outputs: HiddenStatesInput of the component, "text_embeds" if there is a pooled state,
// and "finite" of both. A masked one reads the state before it, kBlendedState f32 [1, tokens,
// features], and gives a part of its own, "share" f32 [1], and the rest of that.
void OutputClip(graph::GraphBuilder& builder, const TextEncoder& encoder, const ClipState& state,
                const TextVariant& variant);
inline constexpr char kBlendedState[] = "blended_state";

// The masked text graph's inputs for a chunk's blend, but for the state before it.
TextRun BlendRun(const TextChunk& chunk, const prompts::Blend& blend);

// Meaning of weights to a family, where the syntax leaves it open.
enum class EmphasisMean : uint8_t {
  kFree,
  kRestored,  // A1111's: a weighted state is scaled to the mean that it had without weights
};

// Field of a request, and the text in it.
struct PromptText {
  absl::string_view field;
  const std::string& text;
};

// Adds the prompt to a row: the inputs of the encoder's graph for it, and of the request graph,
// which weigh the encoder's state. Words of the request's textual inversions have the vectors of
// the encoder with that index. INVALID_ARGUMENT names the field.
absl::Status AddClipPrompt(const TextEncoder& encoder, size_t index, const PromptText& prompt,
                           const pipeline::PictureSpec& resolved, int64_t layer, RowInputs& row);

// Makes all runs of the row those of graphs that take vectors; those without words have none.
void TakeVectors(const ModelConfigs& configs, RowInputs& row);

// The same without a prompt, for a row of zeros or of embeddings.
void AddNoPrompt(const TextEncoder& encoder, RowInputs& row);

// Makes it a row of the request's embeddings, of the prompt or the negative one. False: it brings
// none for that, and the row is as it was.
bool AddEmbeds(const ModelConfigs& configs, const pipeline::PictureSpec& resolved, bool negative,
               RowInputs& row);

// Fills all prompts of a row up to so many chunks with empty ones.
void PadChunks(const ModelConfigs& configs, int chunks, RowInputs& row);

// Adds the request inputs by which JoinHiddenStates restores means, of rows in A1111's syntax.
// REQUIRES: the row's prompt, or its embeddings, are added.
void AddMeanRule(const TextEncoder& encoder, RowInputs& row);

// The input of the request graph for the state of that text encoder that weights move the prompt's
// away from: "emphasis_origin.text_encoder".
std::string EmphasisOriginInput(absl::string_view component);

// Weighs the state of the row's prompt by that encoder, [tokens, features], on the host: what
// JoinHiddenStates does, with `origins` as that has them.
void WeighStates(const TextEncoder& encoder, const RowInputs& row, absl::Span<const float> origins,
                 absl::Span<float> states);

// Adds the request inputs for the hidden states of all encoders, for so many rows of so many
// chunks, which stand behind each other: these, their origins, and "emphasis.text_encoder" [rows,
// tokens], each token's weight less 1. Where means are restored, of one encoder and chunk by chunk,
// also what AddMeanRule gives for them. Returns the weighted states, joined along the features,
// [rows, tokens, features]. A state with no weights is left as it is: state + (state - origin) * 0.
graph::Value JoinHiddenStates(graph::GraphBuilder& builder, const ModelConfigs& configs,
                              int64_t rows, int chunks, EmphasisMean mean);

}  // namespace latentd::families
