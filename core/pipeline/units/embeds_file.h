// Embeddings as a safetensors file with the tensors "prompt_embeds", "pooled_prompt_embeds" where
// the model has them, and the same of the negative prompt, "negative_prompt_embeds", unless it is
// zeros: what a request takes in their place (embeds.h).
//
// Pure functions.
#pragma once

#include <cstdint>
#include <string>

#include "absl/status/statusor.h"
#include "absl/types/span.h"
#include "core/pipeline/picture/run_graph.h"
#include "core/pipeline/plan/plan.h"

namespace latentd::pipeline {

// The file of what text encoders gave (Picture::embeds), with weights applied, in the type that the
// plan wants. INVALID_ARGUMENT: that cannot hold them.
absl::StatusOr<std::string> EmbedsFile(const Plan& plan, absl::Span<const NamedBuffers> rows);

// The most bytes that such a file has.
int64_t EmbedsFileBytes(const Plan& plan);

}  // namespace latentd::pipeline
