// Embeddings that a request brings in place of prompts (pipeline::Embeds), as diffusers has them:
// the hidden states of all text encoders, joined along their features, and the last one's pooled
// state.
//
// Pure functions.
#pragma once

#include <cstdint>
#include <string>
#include <vector>

#include "absl/status/status.h"
#include "absl/strings/string_view.h"
#include "absl/types/span.h"
#include "core/pipeline/plan/plan.h"
#include "core/pipeline/spec/request/inputs.h"
#include "core/pipeline/spec/request/picture_spec.h"

namespace latentd::pipeline {

// INVALID_ARGUMENT: the request asks for something that does not go with its embeddings, by field.
absl::Status CheckBesideEmbeds(const PictureSpec& spec, const Inputs& inputs);

// INVALID_ARGUMENT: embeddings have another shape than the model reads, other bytes than that
// shape, or numbers that are not finite; or they are of a kind that it does not have.
absl::Status CheckEmbeds(const LoadedModel& model, const Inputs& inputs);

// Sets the chunks of rows that read embeddings, then fills the others up to as many as the longest
// has. INVALID_ARGUMENT: a row of embeddings has fewer. REQUIRES: CheckEmbeds is OK.
absl::Status PlanChunks(const Inputs& inputs, PlannedStage& stage);

// INVALID_ARGUMENT names the field: the tensor has other bytes than its shape, which is right, or
// numbers that are not finite.
absl::Status CheckNumbers(absl::string_view field, const HostTensor& tensor);

// "[2, 1, 1024]"; of a shape of many dimensions the first.
std::string ShapeText(const std::vector<int64_t>& shape);

// Elements of the tensor. REQUIRES, as the next: its shape is right.
int64_t ElementsOf(const HostTensor& tensor);

// Elements from `begin` on, as floats, without rounding.
void Widen(const HostTensor& tensor, int64_t begin, absl::Span<float> values);

}  // namespace latentd::pipeline
