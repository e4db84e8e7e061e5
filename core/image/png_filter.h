// PNG's filters: a row as its differences from what its neighbours let expect, which compress
// better than its bytes.
#pragma once

#include <cstddef>
#include <cstdint>
#include <vector>

#include "core/image/pixels.h"

namespace latentd::image {

// Filters an image's rows, from the top. Not thread-safe.
class RowFilter {
 public:
  // `image` has its pixels, and outlives this.
  explicit RowFilter(const Image& image);

  // The bytes of a filtered row: its filter's number, then a byte for each of the row's.
  size_t size() const { return black_.size() + 1; }

  // The next row. REQUIRES: there is one; `to` has room for size() bytes.
  void Next(uint8_t* to);

 private:
  void Choose(const uint8_t* row, const uint8_t* above, uint8_t* scratch);

  const Image& image_;
  const std::vector<uint8_t> black_;  // what the first row is compared with
  int y_ = 0;
  int filter_;
};

}  // namespace latentd::image
