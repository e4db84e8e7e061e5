// The chunks of a PNG, found the way Pillow finds them: more patiently than libpng, which refuses a
// file for the checksum of its pixels, an unknown chunk or a missing end.
//
// Thread-safe: free functions without state.
#pragma once

#include <cstdint>
#include <string>
#include <vector>

#include "absl/status/statusor.h"
#include "absl/strings/string_view.h"

namespace latentd::image {

// All views are into the file's bytes.
struct PngChunk {
  absl::string_view name;  // four bytes
  absl::string_view data;  // as much of it as there is
};

struct PngParts {
  // Fields of the header (IHDR).
  uint32_t width = 0, height = 0;
  uint8_t bit_depth = 0, color_type = 0;
  bool interlaced = false;

  absl::string_view palette;             // the last one before the pixels; empty: there is none
  std::vector<absl::string_view> data;   // compressed pixels
  std::vector<PngChunk> texts;           // eXIf, tEXt, zTXt and iTXt, also behind the pixels
  std::vector<std::string> passed_over;  // a sentence for each thing that is not as it should be
};

inline constexpr uint8_t kPngPalette = 3, kPngGrey = 0;  // color_type

// REQUIRES: IsPng(bytes). INVALID_ARGUMENT where there is no header that can be right, or no
// pixels. Reads nothing but the chunks' own first bytes and the checksums of short ones: time is
// linear in the number of chunks and in the bytes of all but the pixels.
absl::StatusOr<PngParts> ReadPngParts(absl::string_view bytes);

}  // namespace latentd::image
