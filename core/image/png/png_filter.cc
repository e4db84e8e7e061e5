#include "core/image/png/png_filter.h"

#include <cstdlib>

namespace latentd::image {
namespace {

constexpr int kChannels = 3;

// By their numbers in the format. Without the one that leaves a row as it is: pictures have few
// rows that it suits.
enum Filter { kLeft = 1, kAbove = 2, kMean = 3, kPaeth = 4 };

// The one of left, above and left above that is nearest to left + above - left above.
uint8_t Paeth(int16_t left, int16_t above, int16_t corner) {
  const auto to_left = static_cast<int16_t>(std::abs(above - corner));
  const auto to_above = static_cast<int16_t>(std::abs(left - corner));
  const auto to_corner = static_cast<int16_t>(std::abs(left + above - 2 * corner));
  const int16_t other = to_above <= to_corner ? above : corner;
  return static_cast<uint8_t>(to_left <= to_above && to_left <= to_corner ? left : other);
}

void SubtractLeft(const uint8_t* row, int bytes, uint8_t* to) {
  for (int i = 0; i < kChannels; ++i) to[i] = row[i];
  for (int i = kChannels; i < bytes; ++i) to[i] = row[i] - row[i - kChannels];
}

void SubtractAbove(const uint8_t* row, const uint8_t* above, int bytes, uint8_t* to) {
  for (int i = 0; i < bytes; ++i) to[i] = row[i] - above[i];
}

void SubtractMean(const uint8_t* row, const uint8_t* above, int bytes, uint8_t* to) {
  for (int i = 0; i < kChannels; ++i) to[i] = row[i] - above[i] / 2;
  for (int i = kChannels; i < bytes; ++i) to[i] = row[i] - (row[i - kChannels] + above[i]) / 2;
}

void SubtractPaeth(const uint8_t* row, const uint8_t* above, int bytes, uint8_t* to) {
  for (int i = 0; i < kChannels; ++i) to[i] = row[i] - above[i];
  for (int i = kChannels; i < bytes; ++i) {
    to[i] = row[i] - Paeth(row[i - kChannels], above[i], above[i - kChannels]);
  }
}

// A row of `bytes` below the one at `above`, behind its filter's number.
void Apply(int filter, const uint8_t* row, const uint8_t* above, int bytes, uint8_t* to) {
  *to++ = static_cast<uint8_t>(filter);
  switch (filter) {
    case kLeft:
      return SubtractLeft(row, bytes, to);
    case kAbove:
      return SubtractAbove(row, above, bytes, to);
    case kMean:
      return SubtractMean(row, above, bytes, to);
    case kPaeth:
      return SubtractPaeth(row, above, bytes, to);
  }
}

// How far differences are from zero, all together.
uint32_t Distance(const uint8_t* differences, int bytes) {
  uint32_t distance = 0;  // rows over 32 MiB: modulo 2^32, whose filter is a poor one, at worst
  for (int i = 0; i < bytes; ++i) distance += std::abs(static_cast<int8_t>(differences[i]));
  return distance;
}

}  // namespace

RowFilter::RowFilter(const Image& image, int first)
    : image_(image), black_(size_t{kChannels} * image.width), y_(first), filter_(kLeft) {}

// The one whose differences are least. The first row has nothing above, so that what suits it says
// nothing of the second.
void RowFilter::Choose(const uint8_t* row, const uint8_t* above, uint8_t* scratch) {
  if (y_ > 1 && y_ % kRowsOfAChoice != 0) return;
  const int bytes = static_cast<int>(black_.size());
  uint32_t least = UINT32_MAX;
  for (const int filter : {kLeft, kAbove, kMean, kPaeth}) {
    Apply(filter, row, above, bytes, scratch);
    const uint32_t distance = Distance(scratch + 1, bytes);
    if (distance >= least) continue;
    least = distance;
    filter_ = filter;
  }
}

void RowFilter::Next(uint8_t* to) {
  const uint8_t* const row = image_.rgb.data() + y_ * black_.size();
  const uint8_t* const above = y_ == 0 ? black_.data() : row - black_.size();
  Choose(row, above, to);
  Apply(filter_, row, above, static_cast<int>(black_.size()), to);
  ++y_;
}

}  // namespace latentd::image
