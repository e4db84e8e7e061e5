#include "core/pipeline/graphs/text_graphs.h"

#include <utility>

#include "core/graph/graph_builder.h"
#include "core/networks/clip_text.h"

namespace latentd::pipeline {
namespace {

using device::DType;
using graph::GraphBuilder;
using graph::Rate;
using graph::Value;

// The one at index `layer` of states [1, tokens, features].
Value SelectState(GraphBuilder& b, const std::vector<Value>& states, Value layer) {
  const graph::Shape shape = b.shape(states.front());
  std::vector<Value> entries;
  entries.reserve(states.size());
  for (const Value state : states) entries.push_back(b.Reshape(state, {1, 1, shape.elements()}));
  return b.Reshape(b.Select(b.Concat(entries, 1), layer), shape);
}

// Tests both together, as one row; the pooled state of encoders without a projection is not read.
Value IsFinite(GraphBuilder& b, const TextEncoder& encoder, Value state, Value pooled) {
  if (encoder.config.kind != networks::ClipTextKind::kWithProjection) return b.IsFinite(state);
  const auto flat = [&](Value value) { return b.Reshape(value, {1, b.shape(value).elements()}); };
  return b.IsFinite(b.Concat({flat(state), flat(pooled)}, 1));
}

}  // namespace

absl::StatusOr<graph::Graph> MakeTextGraph(const TextEncoder& encoder) {
  GraphBuilder b;
  const auto input = [&](const char* name, graph::Shape shape) {
    return b.Input(name, DType::kI64, std::move(shape), Rate::kStep);
  };
  const networks::ClipTextInputs inputs{input("input_ids", {1, encoder.tokenizer->max_length()}),
                                        input("pooled_position", {1})};
  const networks::ClipTextOutputs outputs =
      networks::ClipText(b, encoder.config, encoder.component, inputs);
  const Value state = SelectState(b, outputs.hidden_states, input("layer", {1}));
  b.Output("hidden_state", state);
  b.Output("pooled", outputs.pooled);
  b.Output("finite", IsFinite(b, encoder, state, outputs.pooled));
  return std::move(b).Build();
}

}  // namespace latentd::pipeline
