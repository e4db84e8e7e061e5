#include "core/image/pixels/overlay.h"

#include <algorithm>
#include <utility>

#include "core/base/errors/status_macros.h"

namespace latentd::image {
namespace {

// Rounds of a number in 255ths, as Pillow divides.
constexpr int By255(int number) { return ((number >> 8) + number) >> 8; }

// A byte of the image that is kept by so much: Pillow multiplies it by that, rounded, and divides
// it again, cut off.
int Kept(int byte, int alpha) {
  const int multiplied = By255(byte * alpha + 128);
  return std::min(255 * multiplied / alpha, 255);
}

// Lays it over a byte of what is drawn, in 7 more bits.
uint8_t Mixed(int kept, int drawn, int alpha) {
  constexpr int kBits = 7;
  const int sum = (kept * alpha + drawn * (255 - alpha)) << kBits;
  return static_cast<uint8_t>(By255(sum + (128 << kBits)) >> kBits);
}

}  // namespace

Overlay::Overlay(Image image, std::vector<uint8_t> mask, const Box& box)
    : image_(std::move(image)), box_(box) {
  kept_.reserve(size_t{1} * box.width() * box.height());
  for (int y = box.top; y < box.bottom; ++y) {
    for (int x = box.left; x < box.right; ++x) {
      kept_.push_back(255 - mask[size_t{1} * image_.width * y + x]);
    }
  }
}

absl::StatusOr<Image> Overlay::Over(const Image& drawn) const {
  ASSIGN_OR_RETURN(const Image fitted, ResizeToCover(drawn, box_.width(), box_.height()));
  Image whole = image_;
  const uint8_t* from = fitted.rgb.data();
  const uint8_t* alpha = kept_.data();
  for (int y = box_.top; y < box_.bottom; ++y) {
    uint8_t* to = whole.rgb.data() + size_t{3} * (size_t{1} * whole.width * y + box_.left);
    for (int x = box_.left; x < box_.right; ++x, ++alpha) {
      for (int c = 0; c < 3; ++c, ++from, ++to) {
        *to = *alpha == 0 ? *from : Mixed(Kept(*to, *alpha), *from, *alpha);
      }
    }
  }
  return whole;
}

}  // namespace latentd::image
