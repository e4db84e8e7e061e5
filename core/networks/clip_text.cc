#include "core/networks/clip_text.h"

namespace latentd::networks {
namespace {

Value Embeddings(const Scope& scope, const ClipTextConfig& config, Value ids) {
  GraphBuilder& b = scope.builder();
  const int64_t tokens = Dimension(b, ids, 1);
  const Value table =
      scope.Weight("token_embedding.weight", {config.vocab_size, config.hidden_size});
  Value positions = scope.Weight("position_embedding.weight",
                                 {config.max_position_embeddings, config.hidden_size});
  if (tokens < config.max_position_embeddings) positions = b.Slice(positions, 0, 0, tokens);
  return b.Add(b.Embedding(table, ids), positions);
}

// The same as the operation does, with a mask of the caller's.
Value MaskedHeads(GraphBuilder& b, const ClipTextConfig& config, const ClipTextInputs& inputs,
                  Value query, Value key, Value value) {
  const Shape shape = b.shape(query);
  const int64_t heads = config.num_attention_heads, size = shape[2] / heads;
  const auto by_head = [&](Value x, std::vector<int64_t> order) {
    return b.Permute(b.Reshape(x, {shape[0], shape[1], heads, size}), std::move(order));
  };
  const Value products = b.Matmul(by_head(query, {0, 2, 1, 3}), by_head(key, {0, 2, 3, 1}));
  const Value scores = b.Mul(products, b.Scalar(AttentionScale(shape[2], heads)));
  const Value mask = b.Reshape(inputs.mask, {shape[0], 1, shape[1], shape[1]});
  const Value mixed = b.Matmul(b.Softmax(b.Add(scores, mask)), by_head(value, {0, 2, 1, 3}));
  return b.Reshape(b.Permute(mixed, {0, 2, 1, 3}), shape);
}

Value SelfAttention(const Scope& scope, const ClipTextConfig& config, const ClipTextInputs& inputs,
                    Value x) {
  GraphBuilder& b = scope.builder();
  const int64_t features = config.hidden_size, heads = config.num_attention_heads;
  const Value query = Linear(scope.Child("q_proj"), x, features);
  const Value key = Linear(scope.Child("k_proj"), x, features);
  const Value value = Linear(scope.Child("v_proj"), x, features);
  const Value mixed =
      inputs.mask.id != graph::kNone.id
          ? MaskedHeads(b, config, inputs, query, key, value)
          : b.Attention(query, key, value,
                        {.heads = heads, .scale = AttentionScale(features, heads), .causal = true});
  return Linear(scope.Child("out_proj"), mixed, features);
}

Value Layer(const Scope& scope, const ClipTextConfig& config, const ClipTextInputs& inputs,
            Value x) {
  GraphBuilder& b = scope.builder();
  const Value first = LayerNorm(scope.Child("layer_norm1"), x, config.layer_norm_eps);
  x = b.Add(x, SelfAttention(scope.Child("self_attn"), config, inputs, first));
  const Value second = LayerNorm(scope.Child("layer_norm2"), x, config.layer_norm_eps);
  const Value hidden = Linear(scope.Child("mlp.fc1"), second, config.intermediate_size);
  const Value activated = Activate(b, hidden, config.activation);
  return b.Add(x, Linear(scope.Child("mlp.fc2"), activated, config.hidden_size));
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
  outputs.hidden_states.push_back(Embeddings(text.Child("embeddings"), config, inputs.input_ids));
  for (int64_t i = 0; i < config.num_hidden_layers; ++i) {
    outputs.hidden_states.push_back(
        Layer(text.Child("encoder.layers", i), config, inputs, outputs.hidden_states.back()));
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
