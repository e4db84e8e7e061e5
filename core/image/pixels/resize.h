// Resizing, to the pixel what Image.resize of Pillow 13 computes: an image has to reach the network
// as diffusers would have handed it over.
#pragma once

#include "absl/status/statusor.h"
#include "core/image/pixels/pixels.h"

namespace latentd::image {

// INVALID_ARGUMENT for a size outside 1..kMaxSide or above kMaxPixels, or a malformed image. The
// same size gives an exact copy. Thread-safe.
absl::StatusOr<Image> ResizeLanczos(const Image& image, int width, int height);
absl::StatusOr<Image> ResizeBicubic(const Image& image, int width, int height);

}  // namespace latentd::image
