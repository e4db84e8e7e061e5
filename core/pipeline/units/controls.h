// The work of a picture's control networks: their hints, and what they add to its steps.
#pragma once

#include "absl/status/status.h"
#include "absl/types/span.h"
#include "core/device/device.h"
#include "core/pipeline/lanes/step_lane.h"
#include "core/pipeline/picture/picture.h"
#include "core/pipeline/picture/run_graph.h"

namespace latentd::pipeline {

// Encodes the hints of the request's controls, unless another picture of it has.
absl::Status EncodeHints(Picture& picture, device::Stream& stream, PendingWork& work);

// Enqueues the control networks that the picture's next evaluation wants, and puts what they say
// into its rows of the lane; zeros where its controls have come to rest.
absl::Status EnqueueControls(Picture& picture, StepLane& lane, device::Stream& stream);

// Gives back what the lane holds of nets that none of its pictures has, and adds it to what `work`
// keeps.
void LeaveOtherNets(absl::Span<Picture* const> pictures, StepLane& lane, PendingWork& work);

}  // namespace latentd::pipeline
