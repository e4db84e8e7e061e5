// The part of an image that is drawn where a mask says what of it to draw over, as diffusers'
// VaeImageProcessor.get_crop_region finds it.
//
// Pure functions.
#pragma once

#include <cstdint>
#include <optional>
#include <vector>

#include "core/image/pixels/fit.h"
#include "core/image/pixels/pixels.h"

namespace latentd::image {

// All of the mask that is not black and `padding` more pixels on each side; then the shorter sides
// grown until it has the aspect ratio of `drawn`, as far as the image goes. `mask` has a grey for
// each pixel of an image of that size. Nullopt: all of it is black.
std::optional<Box> CropRegion(const std::vector<uint8_t>& mask, Dimensions size, Dimensions drawn,
                              int padding);

}  // namespace latentd::image
