#include "core/pipeline/tiles.h"

#include <algorithm>
#include <utility>

#include "core/base/status_macros.h"

namespace latentd::pipeline {
namespace {

using device::Buffer;
using device::DType;

constexpr int kRows = 2, kColumns = 3;  // dimensions of [1, C, H, W]

// `height` x `width` at (top, left) of each plane of `from`, put at (to_top, to_left) of `to`'s.
struct Window {
  int64_t top, left, to_top, to_left, height, width;
};

void Copy(const Buffer& from, const Window& window, Buffer& to) {
  const int64_t planes = from.shape()[1];
  const int64_t height = from.shape()[kRows], width = from.shape()[kColumns];
  const int64_t to_height = to.shape()[kRows], to_width = to.shape()[kColumns];
  const float* source = from.as<float>().data();
  float* target = to.as<float>().data();
  for (int64_t plane = 0; plane < planes; ++plane) {
    for (int64_t y = 0; y < window.height; ++y) {
      const float* line = source + (plane * height + window.top + y) * width + window.left;
      std::copy_n(line, window.width,
                  target + (plane * to_height + window.to_top + y) * to_width + window.to_left);
    }
  }
}

int64_t Product(const device::Shape& shape, int begin, int end) {
  int64_t product = 1;
  for (int i = begin; i < end; ++i) product *= shape[i];
  return product;
}

// Mixes the end of `before` into the beginning of `tile` along a dimension in which they overlap,
// linearly. The other dimensions are the same.
void FadeIn(const Buffer& before, int dimension, int64_t overlap, Buffer& tile) {
  const int64_t size = tile.shape()[dimension], size_before = before.shape()[dimension];
  overlap = std::min({overlap, size, size_before});
  const int64_t outer = Product(tile.shape(), 0, dimension);
  const int64_t inner = Product(tile.shape(), dimension + 1, kColumns + 1);
  for (int64_t o = 0; o < outer; ++o) {
    for (int64_t i = 0; i < overlap; ++i) {
      const float share = static_cast<float>(i) / static_cast<float>(overlap);
      const float* old =
          before.as<float>().data() + (o * size_before + size_before - overlap + i) * inner;
      float* mixed = tile.as<float>().data() + (o * size + i) * inner;
      for (int64_t x = 0; x < inner; ++x) mixed[x] = old[x] * (1 - share) + mixed[x] * share;
    }
  }
}

}  // namespace

std::vector<TileGrid::Span> TileGrid::Cut(int length, int side) {
  std::vector<Span> spans;
  for (int begin = 0; begin < length; begin += side - side / 4) {
    spans.push_back({begin, std::min(side, length - begin)});
  }
  return spans;
}

TileGrid TileGrid::Whole(TileShape image) {
  TileGrid grid;
  grid.rows_ = {{0, image.height}};
  grid.columns_ = {{0, image.width}};
  return grid;
}

TileGrid TileGrid::Overlapping(TileShape image, int side) {
  TileGrid grid;
  grid.rows_ = Cut(image.height, side);
  grid.columns_ = Cut(image.width, side);
  grid.overlap_ = side / 4;
  return grid;
}

std::vector<TileShape> TileGrid::Shapes() const {
  std::vector<TileShape> shapes;
  for (const Span& row : rows_) {
    for (const Span& column : columns_) shapes.push_back({row.size, column.size});
  }
  std::sort(shapes.begin(), shapes.end());
  shapes.erase(std::unique(shapes.begin(), shapes.end()), shapes.end());
  return shapes;
}

int64_t TileGrid::HeldArea() const {
  if (is_whole()) return 0;
  int64_t width = 0;
  for (const Span& column : columns_) width += column.size;
  const int64_t rows_held = rows_.size() == 1 ? 1 : 2;
  return rows_held * rows_.front().size * width;
}

absl::StatusOr<TileGrid::Tiles> TileGrid::RunRow(const Span& row, const Tiles& above,
                                                 const Buffer& image, int scale_in, int scale_out,
                                                 RunTile run) const {
  Tiles tiles;
  for (const Span& column : columns_) {
    const TileShape shape{row.size, column.size};
    Buffer part = Buffer::Allocate(DType::kF32, {1, image.shape()[1], int64_t{row.size} * scale_in,
                                                 int64_t{column.size} * scale_in});
    Copy(image,
         {.top = int64_t{row.begin} * scale_in,
          .left = int64_t{column.begin} * scale_in,
          .height = part.shape()[kRows],
          .width = part.shape()[kColumns]},
         part);
    ASSIGN_OR_RETURN(Buffer tile, run(shape, part));
    const int64_t overlap = int64_t{overlap_} * scale_out;
    if (!above.empty()) FadeIn(above[tiles.size()], kRows, overlap, tile);
    if (!tiles.empty()) FadeIn(tiles.back(), kColumns, overlap, tile);
    tiles.push_back(std::move(tile));
  }
  return tiles;
}

absl::StatusOr<Buffer> TileGrid::Join(const Buffer& image, int scale_in, int scale_out,
                                      RunTile run) const {
  if (is_whole()) return run(Shapes().front(), image);
  Buffer joined;
  Tiles above;
  for (const Span& row : rows_) {
    ASSIGN_OR_RETURN(Tiles tiles, RunRow(row, above, image, scale_in, scale_out, run));
    if (!joined.has_memory()) {
      joined = Buffer::Allocate(
          DType::kF32, {1, tiles.front().shape()[1], image.shape()[kRows] / scale_in * scale_out,
                        image.shape()[kColumns] / scale_in * scale_out});
    }
    // What the next tile covers, it writes over: it has faded in from this one.
    for (size_t i = 0; i < tiles.size(); ++i) {
      Copy(tiles[i],
           {.to_top = int64_t{row.begin} * scale_out,
            .to_left = int64_t{columns_[i].begin} * scale_out,
            .height = tiles[i].shape()[kRows],
            .width = tiles[i].shape()[kColumns]},
           joined);
    }
    above = std::move(tiles);
  }
  return joined;
}

}  // namespace latentd::pipeline
