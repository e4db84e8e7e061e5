// Grey as Pillow's convert("L") makes it of colours (ITU-R 601).
#pragma once

#include <cstdint>
#include <vector>

#include "core/image/pixels/pixels.h"

namespace latentd::image {

// In 16 bits after the point, rounded. `rgb` has three bytes.
inline uint8_t GreyOf(const uint8_t* rgb) {
  constexpr int kRed = 19595, kGreen = 38470, kBlue = 7471, kHalf = 1 << 15, kBits = 16;
  return static_cast<uint8_t>((kRed * rgb[0] + kGreen * rgb[1] + kBlue * rgb[2] + kHalf) >> kBits);
}

// A byte for each pixel.
inline std::vector<uint8_t> GreysOf(const Image& image) {
  std::vector<uint8_t> greys(image.rgb.size() / 3);
  for (size_t i = 0; i < greys.size(); ++i) greys[i] = GreyOf(&image.rgb[3 * i]);
  return greys;
}

}  // namespace latentd::image
