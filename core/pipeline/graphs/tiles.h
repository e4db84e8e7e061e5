// How an image is cut into overlapping tiles, as diffusers' AutoencoderKL does with
// enable_tiling(): each tile begins three quarters of its side after the one before, and fades in
// over the quarter that both have. The last ones end where the image does, so they may be smaller.
//
// Everything here is in latents, whichever side of the autoencoder an image is on. A value: any
// thread.
#pragma once

#include <vector>

namespace latentd::pipeline {

struct TileShape {
  int height = 0;
  int width = 0;
  bool operator==(const TileShape&) const = default;
};

class TileGrid {
 public:
  // A tile's extent in one direction.
  struct Span {
    int begin = 0;
    int size = 0;
    bool operator==(const Span&) const = default;
  };

  // One tile that is all of the image.
  static TileGrid Whole(TileShape image);
  // REQUIRES: `side`, of a tile, is a multiple of 4.
  static TileGrid Overlapping(TileShape image, int side);

  const TileShape& image() const { return image_; }
  const std::vector<Span>& rows() const { return rows_; }
  const std::vector<Span>& columns() const { return columns_; }
  bool is_whole() const { return rows_.size() == 1 && columns_.size() == 1; }
  // Over how much of its beginning a tile fades in, where it and the one before are that long.
  int overlap() const { return overlap_; }

 private:
  static std::vector<Span> Cut(int length, int side);

  TileShape image_;
  std::vector<Span> rows_, columns_;
  int overlap_ = 0;
};

}  // namespace latentd::pipeline
