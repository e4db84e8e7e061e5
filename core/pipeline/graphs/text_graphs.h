// Text encoding, the first stage: one graph for each text encoder. The request part of the step
// graph (step_graph.h) joins what they make.
#pragma once

#include "absl/status/statusor.h"
#include "core/graph/graph.h"
#include "core/pipeline/graphs/model_configs.h"

namespace latentd::pipeline {

// "input_ids" i64 [1, 77], "pooled_position" i64 [1], "layer" i64 [1] -> "hidden_state" [1, 77,
// features] of that layer (0: the embeddings), "pooled" [1, channels], and "finite" u8 [1] of the
// hidden state and, where the encoder projects it, the pooled one.
absl::StatusOr<graph::Graph> MakeTextGraph(const TextEncoder& encoder);

}  // namespace latentd::pipeline
