#include "core/image/png/deflate.h"

#include <libdeflate.h>
#include <zlib.h>

#include <algorithm>
#include <array>

#include "core/image/png/block_codes.h"
#include "core/image/png/runs.h"

namespace latentd::image {
namespace {

constexpr size_t kLongestMatch = 258;
constexpr size_t kShortestMatch = 3;

enum BlockType { kStored = 0, kFixed = 1, kDynamic = 2 };

// How deflate writes the length of a match: a symbol and further bits.
struct MatchLength {
  uint16_t symbol;
  uint8_t further_bits;
  uint8_t further;
};

// 3 to 10 have a symbol each, then four symbols share each number of further bits; 258 has its own.
constexpr auto kMatchLengths = [] {
  std::array<MatchLength, kLongestMatch + 1> lengths{};
  size_t length = kShortestMatch;
  for (uint16_t symbol = kFirstMatchLength; length < kLongestMatch; ++symbol) {
    const int group = (symbol - kFirstMatchLength) / 4;
    const int bits = std::max(0, group - 1);
    for (int further = 0; further < 1 << bits && length < kLongestMatch; ++further) {
      lengths[length++] = {symbol, static_cast<uint8_t>(bits), static_cast<uint8_t>(further)};
    }
  }
  lengths[kLongestMatch] = {285, 0, 0};
  return lengths;
}();

// The next match of a run of which `left` bytes are left, so that none too short remains.
size_t NextMatch(size_t left) {
  return left <= kLongestMatch ? left : std::min(kLongestMatch, left - kShortestMatch);
}

// Distances up to 4 are symbols of their own.
int DistanceSymbol(const Run& run) { return run.distance - 1; }

Counts Count(const Runs& runs) {
  Counts counts;
  std::copy(runs.literals.begin(), runs.literals.end(), counts.symbols.begin());
  counts.symbols[kEndOfBlock] = 1;
  for (const Run& run : runs.runs) {
    for (size_t left = run.length; left > 0;) {
      const size_t match = NextMatch(left);
      ++counts.symbols[kMatchLengths[match].symbol];
      ++counts.distances[DistanceSymbol(run)];
      counts.further_bits += kMatchLengths[match].further_bits;
      left -= match;
    }
  }
  return counts;
}

// Literals' words with their lengths, each found by one access.
class Literals {
 public:
  explicit Literals(const Code<kSymbols>& code) {
    for (size_t byte = 0; byte < words_.size(); ++byte) {
      words_[byte] = uint32_t{code.lengths[byte]} << kLengthShift | code.words[byte];
    }
  }

  void Put(absl::Span<const uint8_t> bytes, BitWriter& to) const {
    BitWriter bits = to;  // in registers: what is written to bytes might change `to`
    const uint8_t* at = bytes.data();
    const uint8_t* const end = at + bytes.size();
    for (; end - at >= 4; at += 4) {
      const Words first = Joined(at[0], at[1]);
      const Words second = Joined(at[2], at[3]);
      bits.Put(first.bits | second.bits << first.count, first.count + second.count);
    }
    for (; at < end; ++at) bits.Put(Word(*at), Length(*at));
    to = bits;
  }

 private:
  static constexpr int kLengthShift = 16;

  struct Words {
    uint64_t bits;
    int count;
  };

  uint64_t Word(uint8_t byte) const { return words_[byte] & 0xFFFF; }
  int Length(uint8_t byte) const { return static_cast<int>(words_[byte] >> kLengthShift); }
  Words Joined(uint8_t first, uint8_t second) const {
    return {Word(first) | Word(second) << Length(first), Length(first) + Length(second)};
  }

  std::array<uint32_t, 256> words_;
};

void PutRun(const Run& run, const Codes& codes, BitWriter& bits) {
  for (size_t left = run.length; left > 0;) {
    const size_t match = NextMatch(left);
    const MatchLength& length = kMatchLengths[match];
    codes.symbols.Put(length.symbol, bits);
    bits.Put(length.further, length.further_bits);
    codes.distances.Put(DistanceSymbol(run), bits);
    left -= match;
  }
}

// Puts the head of a block: a flag of the last one, and its type.
void PutBlockHeader(bool last, BlockType type, BitWriter& bits) { bits.Put(type << 1 | last, 3); }

void PutCoded(absl::Span<const uint8_t> bytes, const Runs& runs, const Codes& codes,
              BitWriter& bits) {
  const Literals literals(codes.symbols);
  size_t at = 0;
  for (const Run& run : runs.runs) {
    literals.Put(bytes.subspan(at, run.at - at), bits);
    PutRun(run, codes, bits);
    at = run.at + run.length;
  }
  literals.Put(bytes.subspan(at), bits);
  codes.symbols.Put(kEndOfBlock, bits);
}

constexpr uint64_t kStoredHeaderBits = 3 + 7 + 32;  // or less: it ends with a byte

void PutStored(absl::Span<const uint8_t> bytes, BitWriter& bits) {
  bits.Reserve(kStoredHeaderBits);
  PutBlockHeader(false, kStored, bits);
  bits.Align();
  bits.Put(bytes.size(), 16);
  bits.Put(bytes.size() ^ 0xFFFF, 16);
  bits.Append({reinterpret_cast<const char*>(bytes.data()), bytes.size()});
}

void PutBlock(absl::Span<const uint8_t> bytes, BitWriter& bits) {
  const Runs runs = FindRuns(bytes);
  const Counts counts = Count(runs);
  const Codes own = CodesFor(counts);
  const CodesHeader header(own);
  const uint64_t dynamic = header.Bits() + BitsOf(counts, own);
  const uint64_t fixed = BitsOf(counts, FixedCodes());
  const uint64_t shorter = 3 + std::min(dynamic, fixed);
  if (kStoredHeaderBits + 8 * bytes.size() <= shorter) return PutStored(bytes, bits);
  bits.Reserve(shorter);
  PutBlockHeader(false, fixed <= dynamic ? kFixed : kDynamic, bits);
  if (dynamic < fixed) header.Put(bits);
  PutCoded(bytes, runs, fixed <= dynamic ? FixedCodes() : own, bits);
  bits.Flush();
}

constexpr absl::string_view kStreamHeader = "\x78\x01";
// An empty one by the fixed codes, whose bits are three and seven.
constexpr absl::string_view kLastBlock("\x03\x00", 2);

std::string StringFor(size_t bytes) {
  std::string string;
  string.reserve(bytes);
  return string;
}

}  // namespace

DeflatePart::DeflatePart(size_t bytes)
    : compressed_(StringFor(bytes + bytes / 1000 + 64)),  // more than it comes to
      bits_(compressed_),
      checksum_(libdeflate_adler32(0, nullptr, 0)) {}

void DeflatePart::Write(absl::Span<const uint8_t> bytes) {
  size_ += bytes.size();
  checksum_ = libdeflate_adler32(checksum_, bytes.data(), bytes.size());
  for (size_t at = 0; at < bytes.size(); at += kBlock) PutBlock(bytes.subspan(at, kBlock), bits_);
}

void DeflatePart::Finish() { PutStored({}, bits_); }

size_t ZlibStreamSize(DeflateParts parts) {
  size_t bytes = kStreamHeader.size() + kLastBlock.size() + sizeof(uint32_t);
  for (const auto& part : parts) bytes += part->compressed().size();
  return bytes;
}

void AppendZlibStream(DeflateParts parts, std::string& to) {
  to.append(kStreamHeader.data(), kStreamHeader.size());
  uLong checksum = libdeflate_adler32(0, nullptr, 0);
  for (const auto& part : parts) {
    to += part->compressed();
    checksum = adler32_combine(checksum, part->checksum(), static_cast<z_off_t>(part->size()));
  }
  to.append(kLastBlock.data(), kLastBlock.size());
  for (int shift = 24; shift >= 0; shift -= 8) to += static_cast<char>(checksum >> shift);
}

}  // namespace latentd::image
