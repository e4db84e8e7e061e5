// The work on an image that is a prompt: what the rows of its steps read of it.
#pragma once

#include "absl/status/status.h"
#include "core/device/device.h"
#include "core/pipeline/picture/picture.h"
#include "core/pipeline/picture/run_graph.h"

namespace latentd::pipeline {

// Encodes the request's image prompts for the rows of the picture's first stage, unless another
// picture of the request has.
absl::Status EncodeImagePrompts(Picture& picture, device::Stream& stream, PendingWork& work);

}  // namespace latentd::pipeline
