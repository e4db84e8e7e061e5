// The parameters of a video, held against a checkpoint.
//
// Pure functions.
#pragma once

#include <vector>

#include "absl/status/statusor.h"
#include "core/families/svd/video_configs.h"
#include "core/pipeline/spec/request/video_spec.h"

namespace latentd::families::svd {

using pipeline::VideoSpec;

// The spec with every default. INVALID_ARGUMENT with a field violation for each field at fault.
absl::StatusOr<VideoSpec> ResolveVideo(const VideoConfigs& configs, VideoSpec spec);

// The guidance of each frame: from the first one's to the last one's in equal steps, as
// torch.linspace in float32. REQUIRES: a resolved spec.
std::vector<float> GuidanceByFrame(const VideoSpec& resolved);

// The numbers that the UNet is told: one frame a second less, motion, and noise on the image.
std::vector<float> TimeIdsOf(const VideoSpec& resolved);

// True if there is guidance in any frame, so that an evaluation is of two rows. diffusers asks the
// last one alone.
bool IsGuided(const VideoSpec& resolved);

}  // namespace latentd::families::svd
