// The units of a video: what UnitKind names, drawn as core/pipeline/plan/video_plan.h says.
//
// One thread at a time, as the Picture's.
#pragma once

#include <vector>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "core/device/device.h"
#include "core/pipeline/lanes/step_lane.h"
#include "core/pipeline/units/units.h"

namespace latentd::pipeline {

// As the functions of unit_kinds.h. REQUIRES: the picture is a video.

// The image to its embeddings, and these to the conditioning, unless another video of the request
// has made it.
absl::Status EnqueueVideoText(Picture& picture, device::Stream& stream, UnitPart& part);

// The image with noise to its latents. The video's generator draws that noise, then the latents
// that its steps begin with.
absl::Status EnqueueVideoEncode(Picture& picture, device::Stream& stream, UnitPart& part);

// A chunk of frames, or the next part of the decoder on them, behind which the picture is kDecode;
// in float32, and whole, where the last try was not finite.
absl::Status EnqueueVideoDecode(Picture& picture, device::Stream& stream, UnitPart& part);
// Behind the last part the picture has the frames, and is kDecode while there are more.
absl::Status CompleteVideoDecode(Picture& picture, UnitPart& part);

// Values of a video for its lane: guidance by frame, and its image.
std::vector<RowValue> VideoValues(const Picture& picture);

}  // namespace latentd::pipeline
