// The work of a picture's control networks: their hints, and what they add to its steps.
#pragma once

#include "absl/status/status.h"
#include "absl/types/span.h"
#include "core/device/device.h"
#include "core/pipeline/lanes/step_lane.h"
#include "core/pipeline/units/picture.h"
#include "core/pipeline/units/run_graph.h"

namespace latentd::pipeline {

// Encodes the hints of the request's controls, unless another picture of it has.
absl::Status EncodeHints(Picture& picture, device::Stream& stream, PendingWork& work);

// Enqueues the control networks that the pictures' next evaluations want, and puts what they say
// into the pictures' rows of the lane; zeros where a picture's controls have come to rest.
absl::Status EnqueueControls(absl::Span<Picture* const> members, StepLane& lane,
                             device::Stream& stream);

}  // namespace latentd::pipeline
