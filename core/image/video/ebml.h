// EBML (RFC 8794): the elements that a Matroska file, and so a WebM, consists of.
//
// Thread-safe: free functions without state. They throw std::bad_alloc.
#pragma once

#include <bit>
#include <cstddef>
#include <cstdint>
#include <string>

#include "absl/strings/str_cat.h"
#include "absl/strings/string_view.h"

namespace latentd::image {

// The lower `bytes` bytes of a number, the highest first.
inline std::string BigEndian(uint64_t value, size_t bytes) {
  std::string text(bytes, '\0');
  for (size_t i = 0; i < bytes; ++i) text[bytes - 1 - i] = static_cast<char>(value >> (8 * i));
  return text;
}

// A size in as few bytes as hold it: the first one's highest bit that is set says how many. All
// ones would be a size that is not known. REQUIRES: size < 2^56 - 1.
inline std::string EbmlSize(uint64_t size) {
  size_t bytes = 1;
  while (size >= (uint64_t{1} << (7 * bytes)) - 1) ++bytes;
  return BigEndian(uint64_t{1} << (7 * bytes) | size, bytes);
}

// The bytes before an element's content. `id` has its marker bit, as specifications write it.
inline std::string EbmlHeader(uint32_t id, uint64_t size) {
  return absl::StrCat(BigEndian(id, (std::bit_width(id) + 7) / 8), EbmlSize(size));
}

// An element of text, bytes, or other elements.
inline std::string EbmlElement(uint32_t id, absl::string_view content) {
  return absl::StrCat(EbmlHeader(id, content.size()), content);
}

// An element of a whole number, in `bytes` bytes; by itself in as few as hold it.
inline std::string EbmlNumber(uint32_t id, uint64_t value, size_t bytes) {
  return EbmlElement(id, BigEndian(value, bytes));
}
inline std::string EbmlNumber(uint32_t id, uint64_t value) {
  return EbmlNumber(id, value, value == 0 ? 1 : (std::bit_width(value) + 7) / 8);
}

inline std::string EbmlFloat(uint32_t id, double value) {
  return EbmlElement(id, BigEndian(std::bit_cast<uint64_t>(value), 8));
}

}  // namespace latentd::image
