#include "core/families/family/clip_text.h"

#include <utility>

#include "absl/strings/str_cat.h"
#include "core/networks/clip_text.h"

namespace latentd::families {
namespace {

using device::DType;
using graph::GraphBuilder;
using graph::Rate;
using graph::Shape;
using graph::Value;

// The one at index `layer` of states [1, tokens, features].
Value SelectState(GraphBuilder& b, const std::vector<Value>& states, Value layer) {
  const Shape shape = b.shape(states.front());
  std::vector<Value> entries;
  entries.reserve(states.size());
  for (const Value state : states) entries.push_back(b.Reshape(state, {1, 1, shape.elements()}));
  return b.Reshape(b.Select(b.Concat(entries, 1), layer), shape);
}

}  // namespace

std::string HiddenStatesInput(absl::string_view component) {
  return absl::StrCat("encoder_hidden_states.", component);
}

ClipState EncodeClip(GraphBuilder& b, const TextEncoder& encoder) {
  const auto input = [&](const char* name, Shape shape) {
    return b.Input(name, DType::kI64, std::move(shape), Rate::kStep);
  };
  const networks::ClipTextInputs inputs{input("input_ids", {1, encoder.tokenizer->max_length()}),
                                        input("pooled_position", {1})};
  const networks::ClipTextOutputs outputs =
      networks::ClipText(b, encoder.config, encoder.component, inputs);
  return {SelectState(b, outputs.hidden_states, input("layer", {1})), outputs.pooled};
}

void OutputClip(GraphBuilder& b, const TextEncoder& encoder, const ClipState& state) {
  b.Output(HiddenStatesInput(encoder.component), state.state);
  if (state.pooled.id == graph::kNone.id) return b.Output("finite", b.IsFinite(state.state));
  b.Output("text_embeds", state.pooled);
  // Both together, as one row.
  const auto flat = [&](Value value) { return b.Reshape(value, {1, b.shape(value).elements()}); };
  b.Output("finite", b.IsFinite(b.Concat({flat(state.state), flat(state.pooled)}, 1)));
}

ClipPrompt TokenizeForClip(const TextEncoder& encoder, const std::string& prompt, int64_t layer) {
  auto tokens = encoder.tokenizer->EncodePadded(prompt);
  const int64_t end = networks::EosPosition(encoder.config, tokens.ids);
  return {{{"input_ids", std::move(tokens.ids)},
           {"pooled_position", std::vector<int64_t>{end}},
           {"layer", std::vector<int64_t>{layer}}},
          tokens.dropped};
}

Value JoinHiddenStates(GraphBuilder& b, const ModelConfigs& configs, int64_t rows) {
  std::vector<Value> states;
  for (const TextEncoder& encoder : configs.text_encoders) {
    const Shape shape = {rows, encoder.tokenizer->max_length(), encoder.config.hidden_size};
    states.push_back(
        b.Input(HiddenStatesInput(encoder.component), DType::kF32, shape, Rate::kRequest));
  }
  return b.Concat(states, 2);
}

}  // namespace latentd::families
