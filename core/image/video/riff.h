// RIFF: the files of chunks that WebP and AVI are.
//
// Thread-safe: free functions without state. They throw std::bad_alloc.
#pragma once

#include <cstddef>
#include <cstdint>
#include <string>

#include "absl/strings/str_cat.h"
#include "absl/strings/string_view.h"

namespace latentd::image {

// Most bytes of a file: one less than 4 GiB, and even.
inline constexpr uint64_t kMostRiffBytes = 0xFFFFFFFE;

// Bytes of a chunk's name and size.
inline constexpr size_t kRiffChunkHeader = 8;

// The lower `bytes` bytes of a number, the lowest first.
inline std::string LittleEndian(uint64_t value, size_t bytes) {
  std::string text(bytes, '\0');
  for (size_t i = 0; i < bytes; ++i) text[i] = static_cast<char>(value >> (8 * i));
  return text;
}

// Name and size, for a chunk of so many bytes.
inline std::string RiffChunkHeader(absl::string_view name, uint64_t bytes) {
  return absl::StrCat(name, LittleEndian(bytes, 4));
}

// A chunk of `content`, which a zero makes even.
inline std::string RiffChunk(absl::string_view name, absl::string_view content) {
  return absl::StrCat(RiffChunkHeader(name, content.size()), content,
                      absl::string_view("\0", content.size() % 2));
}

}  // namespace latentd::image
