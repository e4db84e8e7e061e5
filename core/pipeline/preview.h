// What a picture looks like so far: after a step of which somebody wants to see it, the latents
// without noise that the network predicted there, in colours. They are not among what a step
// leaves, but follow from what it started from and what it made of that, which is read to the host
// in the stream's order and put together later, by whoever has the time. A step that nobody wants
// to see is enqueued as ever, and the picture is the same bytes either way.
#pragma once

#include <cstddef>
#include <vector>

#include "absl/status/status.h"
#include "core/device/device.h"
#include "core/image/pixels.h"
#include "core/pipeline/latent_colors.h"
#include "core/pipeline/picture.h"

namespace latentd::pipeline {

// What a step predicts its picture to be: the sum of latents [1, C, h, w], each by its weight.
struct Prediction {
  struct Term {
    device::Buffer latents;  // on the host, there once the stream has come so far
    float weight;
  };
  size_t bytes() const;

  int step = 0;  // of the picture's total_steps; 0: there is none
  std::vector<Term> terms;
};

// Which step the picture's next evaluation ends, if a preview of that was asked for; otherwise 0.
int PreviewDue(const Picture& picture);

// Enqueue the reads of what the picture's next evaluation starts from, before that is enqueued, and
// of what it has made, after. REQUIRES: the picture is in a lane.
absl::Status ReadStart(const Picture& picture, device::Stream& stream, Prediction& prediction);
absl::Status ReadEnd(const Picture& picture, device::Stream& stream, Prediction& prediction);

// The middle of it, `size` latents, a pixel for each. REQUIRES: there is one, and the stream has
// come so far.
image::Image DrawPreview(const Prediction& prediction, const LatentColors& colors, Size size);

}  // namespace latentd::pipeline
