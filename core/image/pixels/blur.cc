#include "core/image/pixels/blur.h"

#include <algorithm>
#include <cmath>
#include <vector>

#include "absl/strings/str_cat.h"
#include "core/base/errors/status_macros.h"

namespace latentd::image {
namespace {

constexpr int kPasses = 3;
constexpr int kFractionBits = 24;  // weights' bits after the point

// A window around a pixel: so many whole ones on each side, and a part of the next.
struct Window {
  int side;
  uint32_t whole, part;  // weights of a pixel
};

// The width of boxes that together have the variance of the Gaussian (Gwosdek and others, 2011), in
// float as Pillow computes it.
Window WindowOf(int gaussian) {
  const auto radius = static_cast<float>(gaussian);
  const float variance = radius * radius / kPasses;
  const auto length = static_cast<float>(std::sqrt(12.0 * variance + 1.0));
  const auto side = static_cast<float>(std::floor((length - 1.0) / 2.0));
  float part = (2 * side + 1) * (side * (side + 1) - 3 * variance);
  part /= 6 * (variance - (side + 1) * (side + 1));
  const float box = side + part;
  constexpr uint32_t kOne = uint32_t{1} << kFractionBits;
  Window window = {.side = static_cast<int>(box)};
  window.whole = static_cast<uint32_t>(static_cast<float>(kOne) / (box * 2 + 1));
  window.part = (kOne - (window.side * 2 + 1) * window.whole) / 2;
  return window;
}

// Blurs `count` runs of `bytes` that lie one after the other, across them. `sums` has `bytes`.
void BlurRuns(const uint8_t* from, uint8_t* to, int count, size_t bytes, const Window& window,
              std::vector<uint32_t>& sums) {
  constexpr uint32_t kHalf = uint32_t{1} << (kFractionBits - 1);
  const auto run = [&](int i) { return from + bytes * std::clamp(i, 0, count - 1); };
  std::fill(sums.begin(), sums.end(), 0);
  for (int i = -window.side - 1; i < window.side; ++i) {
    const uint8_t* entering = run(i);
    for (size_t byte = 0; byte < bytes; ++byte) sums[byte] += entering[byte];
  }
  for (int i = 0; i < count; ++i) {
    const uint8_t *before = run(i - window.side - 1), *last = run(i + window.side),
                  *after = run(i + window.side + 1);
    for (size_t byte = 0; byte < bytes; ++byte) {
      sums[byte] += last[byte] - uint32_t{before[byte]};
      const uint32_t beside = uint32_t{before[byte]} + after[byte];
      *to++ = static_cast<uint8_t>((sums[byte] * window.whole + beside * window.part + kHalf) >>
                                   kFractionBits);
    }
  }
}

}  // namespace

absl::StatusOr<Image> GaussianBlur(const Image& image, int radius) {
  RETURN_IF_ERROR(CheckImage(image));
  if (radius < 0 || radius > kMaxSide) {
    return absl::InvalidArgumentError(
        absl::StrCat("a blur's radius must be 0 to ", kMaxSide, ", is ", radius));
  }
  if (radius == 0) return image;
  const Window window = WindowOf(radius);
  constexpr size_t kColours = 3;
  const size_t row = kColours * image.width;
  Image blurred = image, last = image;
  std::vector<uint32_t> sums(kColours);
  for (int pass = 0; pass < kPasses; ++pass) {
    std::swap(blurred, last);
    for (int y = 0; y < image.height; ++y) {
      BlurRuns(last.rgb.data() + row * y, blurred.rgb.data() + row * y, image.width, kColours,
               window, sums);
    }
  }
  sums.resize(row);
  for (int pass = 0; pass < kPasses; ++pass) {
    std::swap(blurred, last);
    BlurRuns(last.rgb.data(), blurred.rgb.data(), image.height, row, window, sums);
  }
  return blurred;
}

}  // namespace latentd::image
