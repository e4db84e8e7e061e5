#include "core/networks/clip_text.h"

#include "core/networks/layers/clip_layer.h"

namespace latentd::networks {
namespace {

// The tokens' vectors with those that are given in their places: moved, so that all others keep
// their bytes.
Value WithGiven(GraphBuilder& b, const ClipTextInputs& inputs, Value vectors) {
  if (inputs.given_vectors.id == graph::kNone.id) return vectors;
  const Shape shape = b.shape(vectors);
  const int64_t tokens = shape[0] * shape[1], features = shape[2];
  const auto as_row = [&](Value value) { return b.Reshape(value, {1, tokens, features}); };
  const Value all = b.Concat({as_row(vectors), as_row(inputs.given_vectors)}, 1);
  return b.Embedding(b.Reshape(all, {2 * tokens, features}), inputs.vector_rows);
}

Value Embeddings(const Scope& scope, const ClipTextConfig& config, const ClipTextInputs& inputs) {
  GraphBuilder& b = scope.builder();
  const int64_t tokens = Dimension(b, inputs.input_ids, 1);
  const Value table =
      scope.Weight("token_embedding.weight", {config.vocab_size, config.hidden_size});
  Value positions = scope.Weight("position_embedding.weight",
                                 {config.max_position_embeddings, config.hidden_size});
  if (tokens < config.max_position_embeddings) positions = b.Slice(positions, 0, 0, tokens);
  return b.Add(WithGiven(b, inputs, b.Embedding(table, inputs.input_ids)), positions);
}

// Each token attends to itself and the ones before it, or as the mask has it.
ClipLayerOptions LayerOf(const ClipTextConfig& config, const ClipTextInputs& inputs) {
  return {.heads = config.num_attention_heads,
          .intermediate_size = config.intermediate_size,
          .activation = config.activation,
          .layer_norm_eps = config.layer_norm_eps,
          .causal = inputs.mask.id == graph::kNone.id,
          .mask = inputs.mask};
}

Value Pooled(const Scope& root, const ClipTextConfig& config, Value states, Value positions) {
  GraphBuilder& b = root.builder();
  const int64_t tokens = Dimension(b, states, 0) * Dimension(b, states, 1);
  const Value pooled = b.Embedding(b.Reshape(states, {tokens, config.hidden_size}), positions);
  if (config.kind == ClipTextKind::kPlain) return pooled;
  return Linear(root.Child("text_projection"), pooled, config.projection_dim, Bias::kNone);
}

absl::Status CheckInputs(const GraphBuilder& b, const ClipTextConfig& config,
                         const ClipTextInputs& inputs) {
  const Shape& ids = b.shape(inputs.input_ids);
  if (ids.rank() != 2 || ids[1] < 1 || ids[1] > config.max_position_embeddings) {
    return absl::InvalidArgumentError(
        absl::StrCat("the text encoder's input_ids must be [rows, 1 to ",
                     config.max_position_embeddings, " tokens], but are ", ids.ToString()));
  }
  if (inputs.mask.id != graph::kNone.id && b.shape(inputs.mask) != Shape{ids[0], ids[1], ids[1]}) {
    return absl::InvalidArgumentError(absl::StrCat("the text encoder's mask must be [", ids[0],
                                                   ", ", ids[1], ", ", ids[1], "], but is ",
                                                   b.shape(inputs.mask).ToString()));
  }
  if (b.shape(inputs.pooled_positions) == Shape{ids[0]}) return absl::OkStatus();
  return absl::InvalidArgumentError(absl::StrCat("the text encoder's pooled_positions must be [",
                                                 ids[0], "], but are ",
                                                 b.shape(inputs.pooled_positions).ToString()));
}

}  // namespace

ClipTextOutputs ClipText(GraphBuilder& builder, const ClipTextConfig& config,
                         absl::string_view component, const ClipTextInputs& inputs) {
  const Scope root(builder, component);
  const Scope text = root.Child("text_model");
  ClipTextOutputs outputs;
  if (absl::Status status = CheckInputs(builder, config, inputs); !status.ok()) {
    builder.Fail(std::move(status));
    outputs.hidden_states.assign(config.num_hidden_layers + 1, inputs.input_ids);
    outputs.last_hidden_state = outputs.pooled = inputs.input_ids;
    return outputs;
  }
  outputs.hidden_states.push_back(Embeddings(text.Child("embeddings"), config, inputs));
  const ClipLayerOptions layer = LayerOf(config, inputs);
  for (int64_t i = 0; i < config.num_hidden_layers; ++i) {
    outputs.hidden_states.push_back(
        ClipLayer(text.Child("encoder.layers", i), outputs.hidden_states.back(), layer));
  }
  outputs.last_hidden_state =
      NormClipState(builder, config, component, outputs.hidden_states.back());
  outputs.pooled = Pooled(root, config, outputs.last_hidden_state, inputs.pooled_positions);
  return outputs;
}

Value NormClipState(GraphBuilder& builder, const ClipTextConfig& config,
                    absl::string_view component, Value state) {
  const Scope text = Scope(builder, component).Child("text_model");
  return LayerNorm(text.Child("final_layer_norm"), state, config.layer_norm_eps);
}

}  // namespace latentd::networks
