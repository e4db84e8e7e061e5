// A picture in memory, as everything outside a file format sees it.
#pragma once

#include <cstddef>
#include <cstdint>
#include <vector>

#include "absl/status/status.h"

namespace latentd::image {

// height x width x 3 bytes: rows from the top, no padding between them, red first.
//
// Between these bytes and a network's [-1, 1] stands diffusers' rule: a byte is
// round(clamp(x / 2 + 0.5, 0, 1) * 255), halves to even, computed in float; and back it is
// 2 * (byte / 255) - 1.
struct Image {
  int width = 0;
  int height = 0;
  std::vector<uint8_t> rgb;

  bool operator==(const Image&) const = default;
};

struct Dimensions {
  int width = 0;
  int height = 0;
};

// Limits of decoding and resizing: wider or taller images, or more pixels, are refused before
// anything is allocated for them.
inline constexpr int kMaxSide = 8192;
inline constexpr size_t kMaxPixels = size_t{4096} * 4096;

// INVALID_ARGUMENT unless a picture of this size may be held.
absl::Status CheckSize(int64_t width, int64_t height);

// INVALID_ARGUMENT unless `image` has at least one pixel and as many bytes as its size says.
absl::Status CheckImage(const Image& image);

}  // namespace latentd::image
