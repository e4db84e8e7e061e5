// Filtered pixels compressed as a PNG holds them: a zlib stream (RFC 1950) of deflate's blocks
// (RFC 1951). Of what deflate can refer to it takes the runs alone (runs.h); the rest is left to a
// Huffman code for each block. Rows behind PNG's filters hold little else that comes again, and to
// look for it takes most of a general compressor's time.
#pragma once

#include <cstddef>
#include <cstdint>
#include <memory>
#include <string>

#include "absl/types/span.h"
#include "core/image/png/bit_writer.h"

namespace latentd::image {

// A part of a stream: blocks that end with a whole byte. Parts that were made apart are a stream
// behind each other (AppendZlibStream). A pure function of the bytes and of how they are divided
// among calls, on every machine. Not thread-safe. Throws std::bad_alloc.
class DeflatePart {
 public:
  // At most so many bytes are expected.
  explicit DeflatePart(size_t bytes);
  DeflatePart(const DeflatePart&) = delete;

  // Begins a block, or several: a code is chosen for no more than kBlock bytes. Six bytes a block
  // are the most by which a part is longer than what it holds, but for ten more.
  void Write(absl::Span<const uint8_t> bytes);

  // REQUIRED once, as the last call.
  void Finish();

  static constexpr size_t kBlock = 65535;  // most bytes of a block that is not compressed

  // Once it is finished.
  const std::string& compressed() const { return compressed_; }
  size_t size() const { return size_; }  // bytes before compression
  uint32_t checksum() const { return checksum_; }

 private:
  std::string compressed_;
  BitWriter bits_;  // appends to it
  size_t size_ = 0;
  uint32_t checksum_;
};

using DeflateParts = absl::Span<const std::unique_ptr<DeflatePart>>;

// The stream of what the parts hold, one behind the other, behind what `to` has. Throws
// std::bad_alloc.
void AppendZlibStream(DeflateParts parts, std::string& to);
size_t ZlibStreamSize(DeflateParts parts);

}  // namespace latentd::image
