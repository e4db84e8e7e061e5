#include "core/backends/lowering/image_parts.h"

#include <algorithm>

namespace latentd::backends::lowering {
namespace {

int64_t CeilDiv(int64_t a, int64_t b) { return (a + b - 1) / b; }

// Numbers of nearly equal size of which none is above `most`: the first ones' size.
int64_t EvenSize(int64_t all, int64_t most) { return CeilDiv(all, CeilDiv(all, most)); }

// Lines around one that its result reads, on each side.
int64_t ReachOf(const ImageLines& images) { return images.kernel_height / 2; }

bool KeepsLines(const ImageLines& images) {
  return images.kernel_height % 2 == 1 && images.stride == 1 && images.padding == ReachOf(images) &&
         images.result_height == images.height;
}

// Lines of an image's result that a part within it gives, at most.
int64_t MostLines(const ImageLines& images, int64_t most) {
  return most / std::max<int64_t>(1, images.line_elements) - 2 * ReachOf(images);
}

// The image's first and last lines.
void AddEdges(const ImageLines& images, int64_t row, std::vector<ImagePart>& parts) {
  const int64_t reach = ReachOf(images), lines = 2 * reach;
  if (reach == 0) return;
  for (const int64_t first : {int64_t{0}, images.height - lines}) {
    parts.push_back({row, 1, first, lines, reach, first});
  }
}

void AddLines(const ImageLines& images, int64_t row, int64_t most, std::vector<ImagePart>& parts) {
  const int64_t reach = ReachOf(images), end = images.height - reach;
  const int64_t size = EvenSize(end - reach, MostLines(images, most));
  for (int64_t first = reach; first < end; first += size) {
    const int64_t lines = std::min(size, end - first) + 2 * reach;
    parts.push_back({row, 1, first - reach, lines, 0, first});
  }
}

}  // namespace

int64_t RowsOfPart(int64_t rows, int64_t row_elements, int64_t most) {
  return EvenSize(rows, std::max<int64_t>(1, most / std::max<int64_t>(1, row_elements)));
}

std::vector<ImagePart> ImagePartsOf(const ImageLines& images, int64_t most) {
  const int64_t row_elements = images.line_elements * std::max(images.height, images.result_height);
  std::vector<ImagePart> parts;
  if (row_elements <= most) {
    const int64_t rows = RowsOfPart(images.rows, row_elements, most);
    for (int64_t first = 0; first < images.rows; first += rows) {
      parts.push_back(
          {first, std::min(rows, images.rows - first), 0, images.height, images.padding, 0});
    }
    return parts;
  }
  // Lines that the edges spoil have to lie within.
  const bool is_high = images.height >= std::max<int64_t>(3 * ReachOf(images), 1);
  if (!KeepsLines(images) || !is_high || MostLines(images, most) < 1) return parts;
  for (int64_t row = 0; row < images.rows; ++row) {
    AddEdges(images, row, parts);
    AddLines(images, row, most, parts);
  }
  return parts;
}

}  // namespace latentd::backends::lowering
