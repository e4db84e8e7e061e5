#include "core/image/video/exif_comment.h"

#include <cstddef>
#include <cstdint>

#include "absl/strings/str_cat.h"
#include "core/base/text/utf8.h"

namespace latentd::image {
namespace {

std::string TiffNumber(uint32_t value, int bytes) {
  std::string text;
  for (int i = bytes - 1; i >= 0; --i) text.push_back(static_cast<char>(value >> (8 * i)));
  return text;
}

// Takes the first character of valid UTF-8.
uint32_t TakeCharacter(absl::string_view& text) {
  const auto first = static_cast<uint8_t>(text.front());
  const size_t length = first < 0x80 ? 1 : first < 0xE0 ? 2 : first < 0xF0 ? 3 : 4;
  uint32_t character = length == 1 ? first : first & (0x7Fu >> length);
  for (size_t i = 1; i < length; ++i) {
    character = character << 6 | (static_cast<uint8_t>(text[i]) & 0x3Fu);
  }
  text.remove_prefix(length);
  return character;
}

// The higher byte of each unit first.
std::string Utf16(absl::string_view utf8) {
  std::string utf16;
  while (!utf8.empty()) {
    const uint32_t character = TakeCharacter(utf8);
    if (character < 0x10000) {
      utf16 += TiffNumber(character, 2);
    } else {
      const uint32_t above = character - 0x10000;
      utf16 += TiffNumber(0xD800 + (above >> 10), 2);
      utf16 += TiffNumber(0xDC00 + (above & 0x3FF), 2);
    }
  }
  return utf16;
}

constexpr uint32_t kLong = 4, kUndefined = 7;  // types of values

// A directory of one value, or of where it is.
std::string Directory(uint32_t tag, uint32_t type, uint32_t count, uint32_t value) {
  constexpr uint32_t kNoNext = 0;
  return absl::StrCat(TiffNumber(1, 2), TiffNumber(tag, 2), TiffNumber(type, 2),
                      TiffNumber(count, 4), TiffNumber(value, 4), TiffNumber(kNoNext, 4));
}

}  // namespace

std::string ExifComment(absl::string_view text) {
  constexpr uint32_t kExifDirectory = 0x8769, kUserComment = 0x9286;
  constexpr uint32_t kHeaderBytes = 8, kDirectoryBytes = 18;
  const std::string comment = absl::StrCat(absl::string_view("UNICODE\0", 8), Utf16(ToUtf8(text)));
  return absl::StrCat(absl::string_view("MM\0*", 4), TiffNumber(kHeaderBytes, 4),
                      Directory(kExifDirectory, kLong, 1, kHeaderBytes + kDirectoryBytes),
                      Directory(kUserComment, kUndefined, static_cast<uint32_t>(comment.size()),
                                kHeaderBytes + 2 * kDirectoryBytes),
                      comment);
}

}  // namespace latentd::image
