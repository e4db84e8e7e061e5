#include "core/image/pixels/fit.h"

#include <algorithm>
#include <cstdint>

#include "absl/strings/str_cat.h"
#include "core/base/errors/status_macros.h"
#include "core/image/pixels/resize.h"

namespace latentd::image {
namespace {

constexpr size_t kColours = 3;

// The same comparison of aspect ratios as in Python, where both are rounded to doubles.
bool IsWider(const Image& image, int width, int height) {
  return static_cast<double>(width) / height < static_cast<double>(image.width) / image.height;
}

bool IsNarrower(const Image& image, int width, int height) {
  return static_cast<double>(width) / height > static_cast<double>(image.width) / image.height;
}

// Width of the image at that height, and height at that width, rounded down.
int WidthAt(const Image& image, int height) {
  return static_cast<int>(int64_t{image.width} * height / image.height);
}
int HeightAt(const Image& image, int width) {
  return static_cast<int>(int64_t{image.height} * width / image.width);
}

absl::StatusOr<Image> Resized(const Image& image, int width, int height) {
  if (width < 1 || height < 1) {
    return absl::InvalidArgumentError(absl::StrCat("an image of ", image.width, " x ", image.height,
                                                   " is too narrow to become ", width, " x ",
                                                   height));
  }
  return ResizeLanczos(image, width, height);
}

// Draws `image` over `onto` from a place on, which may lie outside.
void Paste(const Image& image, int left, int top, Image& onto) {
  const int begin = std::max(0, -left), end = std::min(image.width, onto.width - left);
  if (begin >= end) return;
  for (int y = std::max(0, -top); y < std::min(image.height, onto.height - top); ++y) {
    const uint8_t* from = image.rgb.data() + kColours * (size_t{1} * image.width * y + begin);
    std::copy_n(from, kColours * (end - begin),
                onto.rgb.data() + kColours * (size_t{1} * onto.width * (top + y) + left + begin));
  }
}

Image Black(int width, int height) {
  return {width, height, std::vector<uint8_t>(kColours * width * height)};
}

// Pillow's bicubic interpolation at an edge, half a pixel from its line: 9/8 of that, less 1/8 of
// the next one.
uint8_t BeyondEdge(uint8_t edge, uint8_t next) {
  return static_cast<uint8_t>(std::clamp((9 * edge - next + 4) >> 3, 0, 255));
}

// Fills `count` lines of `onto` from `first` on, in whose neighbours `edge` is the image's edge,
// and `next` the one within. `stride` is from line to line, `step` from pixel to pixel of `length`.
struct Lines {
  int first, count, edge, next, length;
  size_t stride, step;
};
void FillLines(const Lines& lines, Image& onto) {
  for (int line = lines.first; line < lines.first + lines.count; ++line) {
    for (int i = 0; i < lines.length; ++i) {
      for (size_t c = 0; c < kColours; ++c) {
        const size_t at = lines.step * i + c;
        onto.rgb[lines.stride * line + at] = BeyondEdge(onto.rgb[lines.stride * lines.edge + at],
                                                        onto.rgb[lines.stride * lines.next + at]);
      }
    }
  }
}

// Fills what lies before and behind the `inner` lines from `before` on, of `all`.
void FillBeside(int before, int inner, int all, Lines lines, Image& onto) {
  const int last = before + inner - 1;
  lines.first = 0, lines.count = before;
  lines.edge = before, lines.next = std::min(before + 1, last);
  FillLines(lines, onto);
  lines.first = last + 1, lines.count = all - lines.first;
  lines.edge = last, lines.next = std::max(last - 1, before);
  FillLines(lines, onto);
}

}  // namespace

Image Crop(const Image& image, const Box& box) {
  Image cropped = Black(box.width(), box.height());
  Paste(image, -box.left, -box.top, cropped);
  return cropped;
}

absl::StatusOr<Image> ResizeToFill(const Image& image, int width, int height) {
  RETURN_IF_ERROR(CheckImage(image));
  RETURN_IF_ERROR(CheckSize(width, height));
  const bool wider = IsWider(image, width, height);
  const int inner_width = wider ? width : WidthAt(image, height);
  const int inner_height = wider ? HeightAt(image, width) : height;
  ASSIGN_OR_RETURN(const Image resized, Resized(image, inner_width, inner_height));
  const int left = width / 2 - inner_width / 2, top = height / 2 - inner_height / 2;
  Image filled = Black(width, height);
  Paste(resized, left, top, filled);
  const size_t row = kColours * width;
  if (wider) {
    FillBeside(top, inner_height, height, {.length = width, .stride = row, .step = kColours},
               filled);
  } else {
    FillBeside(left, inner_width, width, {.length = height, .stride = kColours, .step = row},
               filled);
  }
  return filled;
}

absl::StatusOr<Image> ResizeToCover(const Image& image, int width, int height) {
  RETURN_IF_ERROR(CheckImage(image));
  RETURN_IF_ERROR(CheckSize(width, height));
  const bool narrower = IsNarrower(image, width, height);
  const int outer_width = narrower ? width : WidthAt(image, height);
  const int outer_height = narrower ? HeightAt(image, width) : height;
  ASSIGN_OR_RETURN(const Image resized, Resized(image, outer_width, outer_height));
  Image covered = Black(width, height);
  Paste(resized, width / 2 - outer_width / 2, height / 2 - outer_height / 2, covered);
  return covered;
}

}  // namespace latentd::image
