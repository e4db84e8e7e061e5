// Prompts of a request as rows of its stages' text encoders.
//
// Thread-safe: free functions without state.
#pragma once

#include <string>
#include <vector>

#include "absl/status/status.h"
#include "core/adapters/catalogue/catalogue.h"
#include "core/pipeline/plan/plan.h"
#include "core/pipeline/spec/request/inputs.h"
#include "core/pipeline/spec/request/picture_spec.h"

namespace latentd::pipeline {

// Runs of text encoders for weights below 1 (prompts::Blend) that one request may have: they are
// one unit of work, which all others wait for.
inline constexpr int64_t kMaxBlends = 256;

// Fills in the stages' prompts, the negative one first where there is guidance. `catalogue` may be
// null: there are no adapters. Adds sentences to `warnings`. INVALID_ARGUMENT by field: what
// CheckEmbeds and PlanChunks refuse, and more than kMaxBlends.
absl::Status PlanPrompts(PictureSpec& resolved, const Inputs& inputs,
                         adapters::Catalogue* catalogue, std::vector<PlannedStage>& stages,
                         std::vector<std::string>& warnings);

}  // namespace latentd::pipeline
