#include "core/pipeline/graphs/tiles.h"

#include <algorithm>

namespace latentd::pipeline {

std::vector<TileGrid::Span> TileGrid::Cut(int length, int side) {
  std::vector<Span> spans;
  for (int begin = 0; begin < length; begin += side - side / 4) {
    spans.push_back({begin, std::min(side, length - begin)});
  }
  return spans;
}

TileGrid TileGrid::Whole(TileShape image) {
  TileGrid grid;
  grid.image_ = image;
  grid.rows_ = {{0, image.height}};
  grid.columns_ = {{0, image.width}};
  return grid;
}

TileGrid TileGrid::Overlapping(TileShape image, int side) {
  TileGrid grid;
  grid.image_ = image;
  grid.rows_ = Cut(image.height, side);
  grid.columns_ = Cut(image.width, side);
  grid.overlap_ = side / 4;
  return grid;
}

}  // namespace latentd::pipeline
