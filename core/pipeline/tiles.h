// An image cut into overlapping tiles, and joined again, as diffusers' AutoencoderKL does with
// enable_tiling(): each tile begins three quarters of its side after the one before, and fades in
// over the quarter that both have. The last ones end where the image does, so they may be smaller.
//
// Everything here is in latents, whichever side of the autoencoder an image is on.
#pragma once

#include <cstdint>
#include <vector>

#include "absl/functional/function_ref.h"
#include "absl/status/statusor.h"
#include "core/device/buffer.h"

namespace latentd::pipeline {

struct TileShape {
  int height = 0;
  int width = 0;
  bool operator==(const TileShape&) const = default;
  auto operator<=>(const TileShape&) const = default;
};

// An autoencoder's part in one direction, on one tile: f32 [1, C, h, w] -> f32 [1, C', h', w'].
using RunTile = absl::FunctionRef<absl::StatusOr<device::Buffer>(TileShape, const device::Buffer&)>;

class TileGrid {
 public:
  // One tile that is all of the image.
  static TileGrid Whole(TileShape image);
  // REQUIRES: `side`, of a tile, is a multiple of 4.
  static TileGrid Overlapping(TileShape image, int side);

  // Those that differ, 1 to 9 of them, in order.
  std::vector<TileShape> Shapes() const;

  // Latents that tiles cover while Join runs, beside the joined image; 0 for one tile.
  int64_t HeldArea() const;

  // What `run` makes of each tile, joined. `image` has `scale_in` pixels a latent in each
  // direction, the result `scale_out`. The first error of `run` ends it.
  absl::StatusOr<device::Buffer> Join(const device::Buffer& image, int scale_in, int scale_out,
                                      RunTile run) const;

 private:
  struct Span {
    int begin;
    int size;
  };
  using Tiles = std::vector<device::Buffer>;

  static std::vector<Span> Cut(int length, int side);
  bool is_whole() const { return rows_.size() == 1 && columns_.size() == 1; }
  // The tiles of one row, each faded in from the one above and the one before.
  absl::StatusOr<Tiles> RunRow(const Span& row, const Tiles& above, const device::Buffer& image,
                               int scale_in, int scale_out, RunTile run) const;

  std::vector<Span> rows_, columns_;
  int overlap_ = 0;
};

}  // namespace latentd::pipeline
