// The units of work: what each does to a picture. Each requires that picture.next is its own kind,
// and sets what is next. After an error the picture is of no further use. One thread at a time.
#pragma once

#include "absl/status/status.h"
#include "core/pipeline/picture.h"

namespace latentd::pipeline {

// Prompts to the conditioning of the stage at hand, unless another picture of the request has made
// it.
absl::Status RunText(Picture& picture);

// The init image to latents, noised for the schedule's first step.
absl::Status RunEncode(Picture& picture);

// One evaluation of the UNet and what the noise scheduler makes of it.
absl::Status RunStep(Picture& picture);

// Latents to pixels.
absl::Status RunDecode(Picture& picture);

// Readies the stage's first step: makes its state block, or goes on to the next stage where the
// schedule is empty. REQUIRES: the stage's conditioning is there, and latents unless text-to-image
// starts here.
absl::Status BeginSteps(Picture& picture);

}  // namespace latentd::pipeline
