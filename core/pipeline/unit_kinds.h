// What each kind of unit enqueues, for units.cc. Each requires that picture.next is its own kind,
// sets what is next, and adds to `unit` what its work uses and the flags to look at when it is
// done.
#pragma once

#include "absl/status/status.h"
#include "core/pipeline/units.h"

namespace latentd::pipeline {

// Prompts to the conditioning of the stage at hand, unless another picture of the request has made
// it.
absl::Status EnqueueText(Picture& picture, device::Stream& stream, PendingUnit& unit);

// The init image to latents, noised for the schedule's first step.
absl::Status EnqueueEncode(Picture& picture, device::Stream& stream, PendingUnit& unit);

// One evaluation of the UNet and what the noise scheduler makes of it.
absl::Status EnqueueStep(Picture& picture, device::Stream& stream, PendingUnit& unit);

// Latents to pixels.
absl::Status EnqueueDecode(Picture& picture, device::Stream& stream, PendingUnit& unit);

// What the end of its work means for the picture.
absl::Status CompleteDecode(Picture& picture, PendingUnit& unit);

// Readies the stage's first step: joins a lane, or goes on to the next stage where the schedule is
// empty. REQUIRES: the stage's conditioning is there, and latents unless text-to-image starts here.
absl::Status BeginSteps(Picture& picture, device::Stream& stream);

}  // namespace latentd::pipeline
