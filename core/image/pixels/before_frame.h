// A call before each frame of a video that is encoded: to see that the work goes on, and to end it.
#pragma once

#include "absl/functional/function_ref.h"
#include "absl/status/status.h"

namespace latentd::image {

// Called by the thread that is about to encode a frame, by several at once where several encode.
// An error ends the encoding, and is its answer. Does not throw.
using BeforeFrame = absl::FunctionRef<absl::Status()>;

inline absl::Status GoOn() { return absl::OkStatus(); }

}  // namespace latentd::image
