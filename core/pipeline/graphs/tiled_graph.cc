#include "core/pipeline/graphs/tiled_graph.h"

#include <algorithm>
#include <vector>

namespace latentd::pipeline {
namespace {

using graph::GraphBuilder;
using graph::Value;

constexpr int kRows = 2, kColumns = 3;  // dimensions of [1, C, H, W]

using Span = TileGrid::Span;

Value SliceSpan(GraphBuilder& b, Value image, int dimension, const Span& span, int64_t scale) {
  return b.Slice(image, dimension, span.begin * scale, (span.begin + span.size) * scale);
}

// 0, 1/n, ... (n - 1)/n along a dimension, or what is left of 1.
Value Ramp(GraphBuilder& b, int dimension, int64_t size, bool rises) {
  std::vector<float> shares;
  for (int64_t i = 0; i < size; ++i) {
    const float share = static_cast<float>(i) / static_cast<float>(size);
    shares.push_back(rises ? share : 1 - share);
  }
  std::vector<int64_t> dims(4, 1);
  dims[dimension] = size;
  return b.Constant(std::move(shares), graph::Shape(std::move(dims)));
}

// `tile` with the end of `before` mixed into its beginning along a dimension in which they overlap,
// linearly. The other dimensions are the same.
Value FadeIn(GraphBuilder& b, Value before, int dimension, int64_t overlap, Value tile) {
  const int64_t size = b.shape(tile)[dimension], size_before = b.shape(before)[dimension];
  overlap = std::min({overlap, size, size_before});
  const Value ending = b.Slice(before, dimension, size_before - overlap, size_before);
  const Value beginning = b.Slice(tile, dimension, 0, overlap);
  const Value mixed = b.Add(b.Mul(ending, Ramp(b, dimension, overlap, /*rises=*/false)),
                            b.Mul(beginning, Ramp(b, dimension, overlap, /*rises=*/true)));
  if (overlap == size) return mixed;
  return b.Concat({mixed, b.Slice(tile, dimension, overlap, size)}, dimension);
}

// Each part up to where the next one begins, which has faded in from it.
Value Joined(GraphBuilder& b, const std::vector<Value>& parts, const std::vector<Span>& spans,
             int dimension, int64_t scale) {
  std::vector<Value> kept;
  for (size_t i = 0; i < parts.size(); ++i) {
    const bool last = i + 1 == parts.size();
    const int64_t size = last ? spans[i].size : spans[i + 1].begin - spans[i].begin;
    kept.push_back(b.Slice(parts[i], dimension, 0, size * scale));
  }
  return b.Concat(kept, dimension);
}

}  // namespace

Value OverTiles(GraphBuilder& b, const TileGrid& grid, Value image, int64_t scale_in,
                int64_t scale_out, TileNetwork network) {
  if (grid.is_whole()) return network(image);
  const int64_t overlap = grid.overlap() * scale_out;
  std::vector<Value> rows, above;
  for (const Span& row : grid.rows()) {
    std::vector<Value> tiles;
    const Value band = SliceSpan(b, image, kRows, row, scale_in);
    for (const Span& column : grid.columns()) {
      Value tile = network(SliceSpan(b, band, kColumns, column, scale_in));
      tile = b.Cast(tile, device::DType::kF32);
      if (!above.empty()) tile = FadeIn(b, above[tiles.size()], kRows, overlap, tile);
      if (!tiles.empty()) tile = FadeIn(b, tiles.back(), kColumns, overlap, tile);
      tiles.push_back(tile);
    }
    rows.push_back(Joined(b, tiles, grid.columns(), kColumns, scale_out));
    above = std::move(tiles);
  }
  return Joined(b, rows, grid.rows(), kRows, scale_out);
}

}  // namespace latentd::pipeline
