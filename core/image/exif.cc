#include "core/image/exif.h"

#include <algorithm>
#include <cstddef>
#include <utility>

#include "absl/strings/match.h"
#include "absl/strings/strip.h"
#include "core/image/jpeg.h"
#include "core/image/png.h"
#include "core/image/webp.h"

namespace latentd::image {
namespace {

constexpr absl::string_view kPrefix("Exif\0\0", 6);

enum class ByteOrder : uint8_t { kLittle, kBig };

// Numbers of a part of a file; what lies beyond its end is 0.
class Bytes {
 public:
  Bytes(absl::string_view bytes, ByteOrder order) : bytes_(bytes), order_(order) {}

  uint32_t U16(size_t offset) const { return Number(offset, 2); }
  uint32_t U32(size_t offset) const { return Number(offset, 4); }

 private:
  uint32_t Number(size_t offset, size_t count) const {
    if (offset > bytes_.size() || count > bytes_.size() - offset) return 0;
    uint32_t number = 0;
    for (size_t i = 0; i < count; ++i) {
      const size_t at = order_ == ByteOrder::kBig ? i : count - 1 - i;
      number = number << 8 | static_cast<uint8_t>(bytes_[offset + at]);
    }
    return number;
  }

  absl::string_view bytes_;
  ByteOrder order_;
};

// `count` bytes from `offset` on, or as many as there are.
absl::string_view Part(absl::string_view bytes, size_t offset, size_t count) {
  return bytes.substr(std::min(offset, bytes.size()), count);
}

// The data of the first APP1 segment that is EXIF, before the pixels begin.
absl::string_view ExifOfJpeg(absl::string_view bytes) {
  constexpr uint32_t kStartOfScan = 0xFFDA, kApp1 = 0xFFE1, kLowestMarker = 0xFFC0;
  const Bytes file(bytes, ByteOrder::kBig);
  size_t at = 2;
  while (at + 4 <= bytes.size()) {
    const uint32_t marker = file.U16(at);
    if (marker == 0xFFFF) {  // a marker may have any number of these before it
      ++at;
      continue;
    }
    if (marker < kLowestMarker || marker == kStartOfScan) break;
    const size_t length = file.U16(at + 2);  // with its own two bytes
    if (length < 2) break;
    const absl::string_view data = Part(bytes, at + 4, length - 2);
    if (marker == kApp1 && absl::StartsWith(data, kPrefix)) return data;
    at += 2 + length;
  }
  return {};
}

// Also behind the pixels, where the format allows it.
absl::string_view ExifOfPng(absl::string_view bytes) {
  constexpr size_t kSignature = 8, kAround = 12;  // length, name and checksum of a chunk
  const Bytes file(bytes, ByteOrder::kBig);
  size_t at = kSignature;
  while (at + kAround <= bytes.size()) {
    const size_t length = file.U32(at);
    if (bytes.substr(at + 4, 4) == "eXIf") return Part(bytes, at + 8, length);
    at += kAround + length;
  }
  return {};
}

// Only extended files have one, and their first chunk says so.
absl::string_view ExifOfWebp(absl::string_view bytes) {
  constexpr size_t kHeader = 12, kChunkHeader = 8;
  constexpr int kHasExif = 0x08;
  if (bytes.size() <= kHeader + kChunkHeader || bytes.substr(kHeader, 4) != "VP8X" ||
      (bytes[kHeader + kChunkHeader] & kHasExif) == 0) {
    return {};
  }
  const Bytes file(bytes, ByteOrder::kLittle);
  size_t at = kHeader;
  while (at + kChunkHeader <= bytes.size()) {
    const size_t length = file.U32(at + 4);
    if (bytes.substr(at, 4) == "EXIF") return Part(bytes, at + kChunkHeader, length);
    at += kChunkHeader + length + length % 2;
  }
  return {};
}

absl::string_view ExifOf(absl::string_view bytes) {
  if (IsPng(bytes)) return ExifOfPng(bytes);
  if (IsJpeg(bytes)) return ExifOfJpeg(bytes);
  return IsWebp(bytes) ? ExifOfWebp(bytes) : absl::string_view();
}

// The value of the tag in the first directory of a TIFF, where it is one number (TIFF 6.0, section
// 2); 0 if it is not there.
uint32_t FindOrientation(absl::string_view tiff, ByteOrder order) {
  constexpr uint32_t kOrientation = 0x0112, kShort = 3, kLong = 4;
  constexpr size_t kEntryBytes = 12;
  const Bytes file(tiff, order);
  if (file.U16(2) != 42) return 0;
  const size_t directory = file.U32(4);
  const uint32_t entries = file.U16(directory);
  for (uint32_t i = 0; i < entries; ++i) {
    const size_t entry = directory + 2 + i * kEntryBytes;
    if (file.U16(entry) != kOrientation) continue;
    const uint32_t type = file.U16(entry + 2);
    if (file.U32(entry + 4) != 1) return 0;
    if (type == kShort) return file.U16(entry + 8);
    return type == kLong ? file.U32(entry + 8) : 0;
  }
  return 0;
}

bool SwapsSides(Orientation orientation) { return orientation >= Orientation::kLeftTop; }

}  // namespace

Orientation OrientationOf(absl::string_view bytes) {
  const absl::string_view tiff = absl::StripPrefix(ExifOf(bytes), kPrefix);
  uint32_t value = 0;
  if (absl::StartsWith(tiff, "II")) value = FindOrientation(tiff, ByteOrder::kLittle);
  if (absl::StartsWith(tiff, "MM")) value = FindOrientation(tiff, ByteOrder::kBig);
  return 1 <= value && value <= 8 ? static_cast<Orientation>(value) : Orientation::kTopLeft;
}

Dimensions Turned(Dimensions size, Orientation orientation) {
  if (SwapsSides(orientation)) std::swap(size.width, size.height);
  return size;
}

Image Turned(Image image, Orientation orientation) {
  using enum Orientation;
  if (orientation == kTopLeft) return image;
  const bool mirrors_x = orientation == kTopRight || orientation == kBottomRight ||
                         orientation == kRightBottom || orientation == kLeftBottom;
  const bool mirrors_y = orientation == kBottomRight || orientation == kBottomLeft ||
                         orientation == kRightTop || orientation == kRightBottom;
  const Dimensions size = Turned(Dimensions{image.width, image.height}, orientation);
  Image turned{size.width, size.height, {}};
  turned.rgb.resize(image.rgb.size());
  uint8_t* to = turned.rgb.data();
  for (int y = 0; y < size.height; ++y) {
    for (int x = 0; x < size.width; ++x, to += 3) {
      const int column = SwapsSides(orientation) ? y : x, row = SwapsSides(orientation) ? x : y;
      const size_t from_x = mirrors_x ? image.width - 1 - column : column;
      const size_t from_y = mirrors_y ? image.height - 1 - row : row;
      std::copy_n(image.rgb.data() + 3 * (from_y * image.width + from_x), 3, to);
    }
  }
  return turned;
}

}  // namespace latentd::image
