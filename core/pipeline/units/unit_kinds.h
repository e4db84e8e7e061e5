// Enqueues the work of each kind of unit, for units.cc. All require that picture.next is of their
// kind, set what is next, and add to the picture's part what its work uses and the flags to look at
// when it is done.
#pragma once

#include "absl/status/status.h"
#include "core/pipeline/units/units.h"

namespace latentd::pipeline {

// Prompts to the conditioning of the stage at hand, unless another picture of the request has made
// it; or, where embeddings are wanted, to these, for the host.
absl::Status EnqueueText(Picture& picture, device::Stream& stream, UnitPart& part);

// The init image to latents, noised for the schedule's first step.
absl::Status EnqueueEncode(Picture& picture, device::Stream& stream, UnitPart& part);

// One evaluation of the UNet and what the noise scheduler makes of it, for all pictures together;
// those that are not in the lane yet join it. With a helper (null: none) it is split, if that can
// be.
absl::Status EnqueueStep(absl::Span<Picture* const> pictures, Lanes& lanes, device::Stream& stream,
                         const StepHelper* helper, PendingUnit& unit);

// The picture's `prediction` to pixels, by the tiny VAE. UNAVAILABLE: that is not used any more.
// The picture stays as it is.
absl::Status EnqueuePreview(const Picture& picture, device::Stream& stream, UnitPart& part);

// Latents to pixels.
absl::Status EnqueueDecode(Picture& picture, device::Stream& stream, UnitPart& part);

// Effects of the end of its work on the picture.
absl::Status CompleteDecode(Picture& picture, UnitPart& part);

// Gives the picture latents that are noise, or those that the request brings, unless it has some:
// what steps begin with where they begin with no image.
absl::Status DrawFirstLatents(Picture& picture);

// Begins the stage's steps, which are next, with latents of its own where text-to-image starts
// here; and goes on to what follows them where the schedule is empty.
absl::Status BeginSteps(Picture& picture, device::Stream& stream, UnitPart& part);

}  // namespace latentd::pipeline
