#include "core/image/pixels/crop_region.h"

#include <algorithm>

namespace latentd::image {
namespace {

// The least box around what is not black; nullopt: all is.
std::optional<Box> BoxAround(const std::vector<uint8_t>& mask, Dimensions size) {
  Box box = {size.width, size.height, 0, 0};
  const uint8_t* grey = mask.data();
  for (int y = 0; y < size.height; ++y) {
    for (int x = 0; x < size.width; ++x) {
      if (*grey++ == 0) continue;
      box = {std::min(box.left, x), std::min(box.top, y), std::max(box.right, x + 1),
             std::max(box.bottom, y + 1)};
    }
  }
  if (box.width() <= 0) return std::nullopt;
  return box;
}

// Grows [begin, end) by so much, half of it before, and moves it into [0, side).
void Grow(int more, int side, int& begin, int& end) {
  begin -= more / 2;
  end += more - more / 2;
  const int behind = std::max(end - side, 0);
  begin -= behind;
  end -= behind;
  if (begin < 0) {
    end = std::min(end - begin, side);
    begin = 0;
  }
}

}  // namespace

std::optional<Box> CropRegion(const std::vector<uint8_t>& mask, Dimensions size, Dimensions drawn,
                              int padding) {
  std::optional<Box> box = BoxAround(mask, size);
  if (!box) return std::nullopt;
  box = {std::max(box->left - padding, 0), std::max(box->top - padding, 0),
         std::min(box->right + padding, size.width), std::min(box->bottom + padding, size.height)};
  // Quotients of doubles, rounded as Python's.
  const double ratio = static_cast<double>(drawn.width) / drawn.height;
  if (static_cast<double>(box->width()) / box->height() > ratio) {
    const int more = static_cast<int>(box->width() / ratio - box->height());
    Grow(more, size.height, box->top, box->bottom);
  } else {
    const int more = static_cast<int>(box->height() * ratio - box->width());
    Grow(more, size.width, box->left, box->right);
  }
  return box;
}

}  // namespace latentd::image
