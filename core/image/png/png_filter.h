// PNG's filters: a row as its differences from what its neighbours let expect, which compress
// better than its bytes.
#pragma once

#include <cstddef>
#include <cstdint>
#include <vector>

#include "core/image/pixels/pixels.h"

namespace latentd::image {

// Filters an image's rows, one after the other. Not thread-safe.
class RowFilter {
 public:
  // For how many rows a filter is chosen: the next ones mostly want the same.
  static constexpr int kRowsOfAChoice = 8;

  // From row `first` on. REQUIRES: that is a multiple of kRowsOfAChoice. `image` has its pixels,
  // and outlives this.
  explicit RowFilter(const Image& image, int first = 0);

  // The bytes of a filtered row: its filter's number, then a byte for each of the row's.
  size_t size() const { return black_.size() + 1; }

  // The next row. REQUIRES: there is one; `to` has room for size() bytes.
  void Next(uint8_t* to);

 private:
  void Choose(const uint8_t* row, const uint8_t* above, uint8_t* scratch);

  const Image& image_;
  const std::vector<uint8_t> black_;  // the row before the first one
  int y_;
  int filter_;
};

}  // namespace latentd::image
