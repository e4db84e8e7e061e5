// Parts of images, and resizing that keeps the aspect ratio, to the byte what diffusers'
// VaeImageProcessor does with Pillow 13 in its modes "fill" and "crop".
//
// The functions are thread-safe.
#pragma once

#include "absl/status/statusor.h"
#include "core/image/pixels/pixels.h"

namespace latentd::image {

// A part of an image, in its pixels; right and bottom are those behind it.
struct Box {
  int left = 0, top = 0, right = 0, bottom = 0;

  int width() const { return right - left; }
  int height() const { return bottom - top; }
  bool operator==(const Box&) const = default;
};

// REQUIRES: the box lies in the image.
Image Crop(const Image& image, const Box& box);

// The whole image, Lanczos, in the middle of that size; what is left on two sides of it continues
// its outermost two lines. INVALID_ARGUMENT as ResizeLanczos, or where a side would have no pixel.
absl::StatusOr<Image> ResizeToFill(const Image& image, int width, int height);

// The middle of the image, Lanczos, as large as covers that size. INVALID_ARGUMENT likewise.
absl::StatusOr<Image> ResizeToCover(const Image& image, int width, int height);

}  // namespace latentd::image
