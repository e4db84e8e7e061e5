// A Gaussian blur, to the byte what ImageFilter.GaussianBlur(radius) of Pillow 13 computes: three
// box blurs each way, of a width that is no whole number of pixels, each rounded to bytes.
#pragma once

#include "absl/status/statusor.h"
#include "core/image/pixels/pixels.h"

namespace latentd::image {

// Outside of the image lies the nearest pixel of its edge. A radius of 0 gives an exact copy.
// INVALID_ARGUMENT for a radius outside 0..kMaxSide, or a malformed image. Thread-safe.
absl::StatusOr<Image> GaussianBlur(const Image& image, int radius);

}  // namespace latentd::image
