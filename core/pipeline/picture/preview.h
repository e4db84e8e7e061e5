// The look of a picture or a video so far: after a step for which a preview is wanted, the latents
// without noise that the network predicted there, decoded by the checkpoint's tiny VAE or in
// colours. They are not among what a step leaves, but follow from what it started from and what it
// made of that, which is read to the host in the stream's order and put together later: for the
// tiny VAE by a unit of its own, in colours by a thread that has the time. A step without a preview
// is enqueued as ever, and the picture is the same bytes either way.
#pragma once

#include <vector>

#include "absl/status/status.h"
#include "core/device/device.h"
#include "core/image/pixels/pixels.h"
#include "core/pipeline/picture/latent_colors.h"
#include "core/pipeline/picture/picture.h"
#include "core/pipeline/picture/prediction.h"

namespace latentd::pipeline {

// The step that the picture's next evaluation ends, if its preview was asked for; otherwise 0. A
// tiny VAE draws none of the last step of all: the picture itself is as soon there.
int PreviewDue(const Picture& picture);

// Enqueue the reads of what the picture's next evaluation starts from, before that is enqueued, and
// of what it has made, after. REQUIRES: the picture is in a lane.
absl::Status ReadStart(const Picture& picture, device::Stream& stream, Prediction& prediction);
absl::Status ReadEnd(const Picture& picture, device::Stream& stream, Prediction& prediction);

// How many previews of the stage that the picture is in, or of a later one, are still to be decoded
// by the tiny VAE.
int PreviewsAhead(const Picture& picture, size_t stage);

// The sum of its terms. REQUIRES: there is one, and the stream has come so far.
device::Buffer SumOf(const Prediction& prediction);

// In colours: the middle of it, `size` latents, a pixel for each; of a video an image for each of
// its frames. REQUIRES: as SumOf.
std::vector<image::Image> DrawPreview(const Prediction& prediction, const LatentColors& colors,
                                      Size size);

// The picture from a tiny VAE's pixels: `size` of them, from the middle: each pixel is the mean
// of so many in each direction, a quarter of the picture's sides where that can be. A pixel for
// each latent, as colours have, would leave nothing of what a decoder can show and they cannot.
inline constexpr int kPreviewShrink = 4;
image::Image ShrinkPixels(const device::Buffer& pixels, Size size);

}  // namespace latentd::pipeline
