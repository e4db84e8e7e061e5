// Parts of a convolution over images of more elements than a library counts, in 32 bits as a rule:
// as many whole images as have fewer, or of an image that is larger, some of its lines. A part is
// a convolution of its own, whose lines lie together in the image and in its result.
//
// Lines at an edge of the image are padded, those within are not, and a library pads both edges of
// what it convolves or neither. So the edges are parts of a few lines each, padded on both sides:
// half of the lines that these give are right, and the other half lie where a later part writes.
// Parts are run in their order; what they add to the result (a residual) is not the result itself.
//
// Pure functions.
#pragma once

#include <cstdint>
#include <limits>
#include <vector>

namespace latentd::backends::lowering {

inline constexpr int64_t kMostCounted = std::numeric_limits<int32_t>::max();

// Sizes of a convolution's images, in lines. `line_elements`: of a line of an image or of its
// result, the longer one.
struct ImageLines {
  int64_t rows = 0, height = 0, result_height = 0;
  int64_t kernel_height = 1, stride = 1, padding = 0;
  int64_t line_elements = 0;
};

struct ImagePart {
  int64_t first_row = 0, rows = 0;    // images
  int64_t first_line = 0, lines = 0;  // lines of each that are read
  int64_t padding = 0;                // lines of zeros above these and below
  int64_t first_result_line = 0;      // the others follow it

  bool operator==(const ImagePart&) const = default;
};

// Images of which a part takes all, or of nearly equal numbers: at most `most` elements each, where
// a single one has no more. `row_elements`: of an image or of its result, the larger one.
int64_t RowsOfPart(int64_t rows, int64_t row_elements, int64_t most = kMostCounted);

// Parts whose images, and whose results, have at most `most` elements. Empty: an image that has
// more cannot be cut, since its lines are too long or too few, or since its convolution has
// another size or a stride.
std::vector<ImagePart> ImagePartsOf(const ImageLines& images, int64_t most = kMostCounted);

}  // namespace latentd::backends::lowering
