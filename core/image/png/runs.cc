#include "core/image/png/runs.h"

#include <cstring>

namespace latentd::image {
namespace {

constexpr size_t kPiece = sizeof(uint64_t);
constexpr size_t kPixel = 3;

uint64_t Piece(const uint8_t* at) {
  uint64_t piece;
  std::memcpy(&piece, at, kPiece);
  return piece;
}

// Counts a byte in one of several tables, in turns: counting the same byte twice in the same place
// would wait for the first.
class Histogram {
 public:
  void Add(const uint8_t* piece) {
    for (size_t i = 0; i < kPiece; ++i) ++counts_[i % kTables][piece[i]];
  }
  void AddOne(uint8_t byte) { ++counts_[0][byte]; }
  // The tables' sums stay right where one of them wraps around.
  void RemoveOne(uint8_t byte) { --counts_[0][byte]; }

  std::array<uint32_t, 256> Sum() const {
    std::array<uint32_t, 256> sum{};
    for (const auto& table : counts_) {
      for (size_t byte = 0; byte < sum.size(); ++byte) sum[byte] += table[byte];
    }
    return sum;
  }

 private:
  static constexpr size_t kTables = 4;
  std::array<std::array<uint32_t, 256>, kTables> counts_{};
};

}  // namespace

Runs FindRuns(absl::Span<const uint8_t> bytes) {
  Runs found;
  Histogram literals;
  const uint8_t* const data = bytes.data();
  size_t counted_from = 0;  // bytes from here to `at` are counted as literals
  size_t at = 0;
  const auto take_run = [&](size_t distance) {
    size_t begin = at;
    while (begin > counted_from && begin > distance &&
           data[begin - 1] == data[begin - 1 - distance]) {
      literals.RemoveOne(data[--begin]);
    }
    size_t end = at + kPiece;
    while (end + kPiece <= bytes.size() && Piece(data + end) == Piece(data + end - distance))
      end += kPiece;
    while (end < bytes.size() && data[end] == data[end - distance]) ++end;
    found.runs.push_back({begin, end - begin, static_cast<int>(distance)});
    counted_from = at = end;
  };
  for (; at < kPixel && at < bytes.size(); ++at) literals.AddOne(data[at]);
  while (at + kPiece <= bytes.size()) {
    const uint64_t piece = Piece(data + at);
    if (piece == Piece(data + at - 1)) {
      take_run(1);
    } else if (piece == Piece(data + at - kPixel)) {
      take_run(kPixel);
    } else {
      literals.Add(data + at);
      at += kPiece;
    }
  }
  for (; at < bytes.size(); ++at) literals.AddOne(data[at]);
  found.literals = literals.Sum();
  return found;
}

}  // namespace latentd::image
