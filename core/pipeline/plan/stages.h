// The stages of a request: for each of its models the noise scheduler and the schedule that it
// runs.
//
// Pure functions.
#pragma once

#include <cstddef>
#include <string>
#include <vector>

#include "absl/status/statusor.h"
#include "absl/types/span.h"
#include "core/pipeline/graphs/loaded_model.h"
#include "core/pipeline/plan/plan.h"
#include "core/pipeline/spec/request/picture_spec.h"

namespace latentd::pipeline {

// Stages of these models, in order, without their rows and prompts; with output_embeds the first
// one's, which has no schedule. INVALID_ARGUMENT names the field of the spec, which has its
// defaults.
absl::StatusOr<std::vector<PlannedStage>> MakeStages(absl::Span<const LoadedModel* const> models,
                                                     const PictureSpec& spec);

// Evaluations of the first stage's schedule before denoising_end cuts it, which is as diffusers
// counts those of control networks.
absl::StatusOr<size_t> UncutEvaluations(const PlannedStage& stage, const PictureSpec& spec);

// The name of the stages' scheduler with the grid behind it; empty where the models each keep
// another one.
std::string SchedulerNameOf(const std::vector<PlannedStage>& stages);

}  // namespace latentd::pipeline
