// The parts of an image that a mask keeps, to be laid over what is drawn of it: to the byte
// diffusers' VaeImageProcessor.apply_overlay with Pillow 13.
#pragma once

#include <cstdint>
#include <vector>

#include "absl/status/statusor.h"
#include "core/image/pixels/fit.h"
#include "core/image/pixels/pixels.h"

namespace latentd::image {

// Immutable, and thread-safe.
class Overlay {
 public:
  // The part of the image in `box` is drawn anew. `mask` is grey, a byte for each pixel of the
  // image: white is as drawn, black as in the image, and what lies between is mixed. REQUIRES: the
  // box lies in the image, and all of the mask that is not black in the box.
  Overlay(Image image, std::vector<uint8_t> mask, const Box& box);

  // The whole image, with `drawn` in the box: resized to it where it has another size (diffusers'
  // mode "crop"). INVALID_ARGUMENT where it cannot be.
  absl::StatusOr<Image> Over(const Image& drawn) const;

  const Box& box() const { return box_; }
  size_t bytes() const { return image_.rgb.size() + kept_.size(); }

 private:
  Image image_;
  std::vector<uint8_t> kept_;  // how much of the image is in each pixel of the box
  Box box_;
};

}  // namespace latentd::image
