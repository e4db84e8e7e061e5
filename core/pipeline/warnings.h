// Warnings about a request: what of it has no effect, and what its models are not made for.
//
// Pure functions.
#pragma once

#include <string>
#include <vector>

#include "core/pipeline/plan/plan.h"
#include "core/pipeline/spec/request/picture_spec.h"

namespace latentd::pipeline {

// A sentence for each parameter of `asked` that has no effect on the plan's images, then one for
// each value that its models are not made for. REQUIRES: all else of the plan is there.
std::vector<std::string> WarningsOf(const PictureSpec& asked, const Plan& plan);

// Adds a warning where guidance_interval changes no step of the plan's videos, or guides none.
void WarnOfVideoGuidance(const PictureSpec& asked, Plan& plan);

// Leaves out previews of videos that cannot be, with a warning.
void CheckVideoPreviews(const PictureSpec& asked, const LoadedModel& model, Plan& plan);

}  // namespace latentd::pipeline
