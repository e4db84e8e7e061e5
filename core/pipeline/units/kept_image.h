// The init image of a picture with a mask, which keeps it where nothing is drawn: put back, noised,
// after each evaluation by the graph that samples its latents (kSample).
//
// One thread at a time, as the Picture's.
#pragma once

#include <cstddef>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "core/device/buffer.h"
#include "core/device/device.h"
#include "core/pipeline/picture/picture.h"
#include "core/pipeline/picture/run_graph.h"

namespace latentd::pipeline {

// Latents by the request's sample graph, of the image and of noise so many times each.
absl::StatusOr<device::Buffer> RunSample(const Picture& picture, NamedBuffers inputs,
                                         double image_scale, double noise_scale,
                                         device::Stream& stream, PendingWork& work);

// A differential mask, which is another one before each evaluation of the picture's stage. Without
// memory: behind the last one, where nothing is kept. REQUIRES: the mask is differential, and read.
absl::StatusOr<device::Buffer> DifferentialMaskBefore(const Picture& picture, size_t evaluation);

// Keeps on the device what the graph reads after each evaluation, of its inputs for the first step.
// REQUIRES: the mask is read.
absl::Status KeepForSteps(Picture& picture, const NamedBuffers& inputs, device::Stream& stream);

// Puts the image, noised for the next evaluation, back where the mask keeps it. REQUIRES: the
// picture has inputs that are kept, and a place in a lane.
absl::Status PutImageBack(const Picture& picture, device::Stream& stream, PendingWork& work);

}  // namespace latentd::pipeline
