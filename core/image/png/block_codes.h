// The codes of a block of deflate's (RFC 1951, 3.2.5 to 3.2.7): which symbols there are, the codes
// for them, and how a block tells of its own.
//
// Thread-safe but for BitWriter: values, and free functions without state.
#pragma once

#include <array>
#include <cstddef>
#include <cstdint>
#include <vector>

#include "core/image/png/bit_writer.h"

namespace latentd::image {

inline constexpr int kEndOfBlock = 256;
inline constexpr int kFirstMatchLength = 257;  // symbols below it are bytes, but for kEndOfBlock

// As many as the fixed codes have; a few of them mean nothing, and never come.
inline constexpr size_t kSymbols = 288;
inline constexpr size_t kDistances = 32;

// Words of a block's own codes are no longer than this: four of them and the seven bits that
// BitWriter may hold are what it can put at once.
inline constexpr int kLongestSymbol = 14;

// A prefix code with its words.
template <size_t kSymbols>
struct Code {
  std::array<uint8_t, kSymbols> lengths{};
  std::array<uint16_t, kSymbols> words{};

  void Put(int symbol, BitWriter& bits) const { bits.Put(words[symbol], lengths[symbol]); }
};

// The two codes of a block.
struct Codes {
  Code<kSymbols> symbols;  // bytes, the end, lengths of matches
  Code<kDistances> distances;
};

// Number of times that each symbol occurs in a block.
struct Counts {
  std::array<uint32_t, kSymbols> symbols{};
  std::array<uint32_t, kDistances> distances{};
  uint64_t further_bits = 0;
};

// The fixed codes, which every decoder knows.
const Codes& FixedCodes();

// The shortest for a block. REQUIRES: two symbols come at least.
Codes CodesFor(const Counts& counts);

// Bits that all symbols take, with the bits that follow some of them.
uint64_t BitsOf(const Counts& counts, const Codes& codes);

// How a block's own codes are told before its symbols.
class CodesHeader {
 public:
  explicit CodesHeader(const Codes& codes);

  uint64_t Bits() const;
  void Put(BitWriter& bits) const;

 private:
  static constexpr size_t kLengthSymbols = 19;

  // Lengths of words: 0 to 15 are one each, 16 repeats the last, 17 and 18 are zeros.
  struct Item {
    uint8_t symbol;
    uint8_t further_bits;
    uint8_t further;
  };

  void AddZeros(size_t count);
  void AddRepeated(uint8_t length, size_t count);
  void AddLengths(const std::vector<uint8_t>& lengths);

  size_t symbols_;    // whose lengths are told
  size_t distances_;  // the same
  size_t told_;       // number of code_'s lengths that are written
  std::vector<Item> items_;
  Code<kLengthSymbols> code_;
};

}  // namespace latentd::image
