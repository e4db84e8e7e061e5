// Filtered pixels compressed as a PNG holds them: a zlib stream (RFC 1950) of deflate's blocks
// (RFC 1951). Of what deflate can refer to it takes the runs alone (runs.h); the rest is left to a
// Huffman code for each block. Rows behind PNG's filters hold little else that comes again, and to
// look for it takes most of a general compressor's time.
#pragma once

#include <cstddef>
#include <cstdint>
#include <string>

#include "absl/types/span.h"
#include "core/image/bit_writer.h"

namespace latentd::image {

// Appends a stream to a string that outlives it. A pure function of the bytes and of how they are
// divided among calls, on every machine. Not thread-safe. Throws std::bad_alloc.
class ZlibStream {
 public:
  explicit ZlibStream(std::string& to);

  // Begins a block, or several: a code is chosen for no more than kBlock bytes. Six bytes a block
  // are the most by which the stream is longer than what it holds.
  void Write(absl::Span<const uint8_t> bytes);

  // REQUIRED once, as the last call.
  void Finish();

  static constexpr size_t kBlock = 65535;  // what deflate can hold uncompressed

 private:
  BitWriter bits_;
  uint32_t checksum_;
};

}  // namespace latentd::image
