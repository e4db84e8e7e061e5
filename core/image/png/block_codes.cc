#include "core/image/png/block_codes.h"

#include <algorithm>

#include "core/image/png/huffman.h"

namespace latentd::image {
namespace {

constexpr int kLongestDistance = kLongestWord;
constexpr int kLongestLength = 7;

// The order in which the lengths of the code for lengths are told: those that come seldom last.
constexpr std::array<uint8_t, 19> kLengthOrder = {16, 17, 18, 0, 8,  7, 9,  6, 10, 5,
                                                  11, 4,  12, 3, 13, 2, 14, 1, 15};

template <size_t kSymbols>
Code<kSymbols> CodeOf(const std::array<uint8_t, kSymbols>& lengths) {
  Code<kSymbols> code{lengths};
  AssignWords(code.lengths, absl::MakeSpan(code.words));
  return code;
}

template <size_t kSymbols>
Code<kSymbols> ShortestCode(const std::array<uint32_t, kSymbols>& frequencies, int limit) {
  std::array<uint8_t, kSymbols> lengths;
  ChooseWordLengths(frequencies, limit, absl::MakeSpan(lengths));
  return CodeOf(lengths);
}

// Two words at least: not every decoder takes a code of one or of none.
Code<kDistances> DistanceCode(std::array<uint32_t, kDistances> frequencies) {
  const auto used = [&] {
    return kDistances - std::count(frequencies.begin(), frequencies.end(), 0U);
  };
  for (size_t i = 0; used() < 2; ++i) frequencies[i] = std::max(frequencies[i], 1U);
  return ShortestCode(frequencies, kLongestDistance);
}

template <size_t kCount>
uint64_t BitsOf(const std::array<uint32_t, kCount>& frequencies, const Code<kCount>& code) {
  uint64_t bits = 0;
  for (size_t i = 0; i < kCount; ++i) bits += uint64_t{frequencies[i]} * code.lengths[i];
  return bits;
}

// Up to the last that has a word.
template <size_t kCount>
size_t UsedSymbols(const Code<kCount>& code) {
  size_t used = kCount;
  while (code.lengths[used - 1] == 0) --used;
  return used;
}

}  // namespace

const Codes& FixedCodes() {
  static const Codes codes = [] {
    std::array<uint8_t, kSymbols> symbols;
    std::fill(symbols.begin(), symbols.begin() + 144, 8);
    std::fill(symbols.begin() + 144, symbols.begin() + 256, 9);
    std::fill(symbols.begin() + 256, symbols.begin() + 280, 7);
    std::fill(symbols.begin() + 280, symbols.end(), 8);
    std::array<uint8_t, kDistances> distances;
    distances.fill(5);
    return Codes{CodeOf(symbols), CodeOf(distances)};
  }();
  return codes;
}

Codes CodesFor(const Counts& counts) {
  return {ShortestCode(counts.symbols, kLongestSymbol), DistanceCode(counts.distances)};
}

uint64_t BitsOf(const Counts& counts, const Codes& codes) {
  return BitsOf(counts.symbols, codes.symbols) + BitsOf(counts.distances, codes.distances) +
         counts.further_bits;
}

CodesHeader::CodesHeader(const Codes& codes)
    : symbols_(UsedSymbols(codes.symbols)), distances_(UsedSymbols(codes.distances)) {
  std::vector<uint8_t> lengths(codes.symbols.lengths.begin(),
                               codes.symbols.lengths.begin() + symbols_);
  lengths.insert(lengths.end(), codes.distances.lengths.begin(),
                 codes.distances.lengths.begin() + distances_);
  AddLengths(lengths);
  std::array<uint32_t, kLengthSymbols> frequencies{};
  for (const Item& item : items_) ++frequencies[item.symbol];
  code_ = ShortestCode(frequencies, kLongestLength);
  told_ = kLengthSymbols;
  while (code_.lengths[kLengthOrder[told_ - 1]] == 0) --told_;
}

void CodesHeader::AddZeros(size_t count) {
  while (count >= 3) {
    const size_t taken = std::min<size_t>(count, 138);
    if (taken <= 10) {
      items_.push_back({17, 3, static_cast<uint8_t>(taken - 3)});
    } else {
      items_.push_back({18, 7, static_cast<uint8_t>(taken - 11)});
    }
    count -= taken;
  }
  items_.insert(items_.end(), count, {0, 0, 0});
}

void CodesHeader::AddRepeated(uint8_t length, size_t count) {
  items_.push_back({length, 0, 0});
  --count;
  while (count >= 3) {
    const size_t taken = std::min<size_t>(count, 6);
    items_.push_back({16, 2, static_cast<uint8_t>(taken - 3)});
    count -= taken;
  }
  items_.insert(items_.end(), count, {length, 0, 0});
}

void CodesHeader::AddLengths(const std::vector<uint8_t>& lengths) {
  for (size_t i = 0; i < lengths.size();) {
    size_t end = i + 1;
    while (end < lengths.size() && lengths[end] == lengths[i]) ++end;
    lengths[i] == 0 ? AddZeros(end - i) : AddRepeated(lengths[i], end - i);
    i = end;
  }
}

uint64_t CodesHeader::Bits() const {
  uint64_t bits = 5 + 5 + 4 + 3 * told_;
  for (const Item& item : items_) bits += code_.lengths[item.symbol] + item.further_bits;
  return bits;
}

void CodesHeader::Put(BitWriter& bits) const {
  bits.Put(symbols_ - kFirstMatchLength, 5);
  bits.Put(distances_ - 1, 5);
  bits.Put(told_ - 4, 4);
  for (size_t i = 0; i < told_; ++i) bits.Put(code_.lengths[kLengthOrder[i]], 3);
  for (const Item& item : items_) {
    code_.Put(item.symbol, bits);
    bits.Put(item.further, item.further_bits);
  }
}

}  // namespace latentd::image
