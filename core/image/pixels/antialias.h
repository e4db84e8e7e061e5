// Resizing to what the image encoder of Stable Video Diffusion was trained on: a Gaussian blur as
// wide as the image shrinks, then bicubic interpolation, as diffusers' _resize_with_antialiasing.
#pragma once

#include <vector>

#include "absl/status/statusor.h"
#include "core/image/pixels/pixels.h"

namespace latentd::image {

// Planes of red, green and blue, [3, height, width], for bytes as in [-1, 1]; bicubic weights below
// 0 may leave that. The corners of both images lie on each other, and aspect ratio is not kept.
//
// In each direction: shrinking by the factor f blurs with sigma = max((f - 1) / 2, 0.001) over
// max(4 sigma, 3) pixels, made odd, which the border reflects without repeating its own pixel; then
// four taps (a = -0.75) clamped to the border. To 1e-5 what torch computes in float32.
//
// INVALID_ARGUMENT for an image that is malformed or has less than 2 pixels a side, which diffusers
// cannot reflect, and a size outside 2 to kMaxSide. Thread-safe.
absl::StatusOr<std::vector<float>> ResizeAntialiased(const Image& image, int width, int height);

}  // namespace latentd::image
