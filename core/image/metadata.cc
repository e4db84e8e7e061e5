#include "core/image/metadata.h"

#include <algorithm>
#include <cstddef>
#include <cstdint>

#include "absl/strings/match.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/strip.h"
#include "core/image/jpeg.h"
#include "core/image/pixels/byte_order.h"
#include "core/image/png/png.h"
#include "core/image/webp.h"

namespace latentd::image {
namespace {

// Segments of EXIF are one behind the other: 64 KiB do not hold all that cameras write. Of XMP the
// last one counts.
void KeepApp1(absl::string_view data, Metadata& metadata) {
  constexpr absl::string_view kExif("Exif\0\0", 6), kXmp("http://ns.adobe.com/xap/1.0/\0", 29);
  if (absl::ConsumePrefix(&data, kXmp)) {
    metadata.xmp = std::string(data);
  } else if (absl::StartsWith(data, kExif)) {
    if (metadata.exif) data.remove_prefix(kExif.size());
    metadata.exif = absl::StrCat(metadata.exif.value_or(""), data);
  }
}

// A segment without a length: restart markers, the picture's start and end, and reserved ones.
bool IsBare(uint32_t marker) {
  return (0xFFD0 <= marker && marker <= 0xFFD9) || marker == 0xFFC8 ||
         (0xFFF0 <= marker && marker <= 0xFFFD);
}

// All that stands before the pixels begin. Bytes between segments are passed over.
Metadata ReadJpegMetadata(absl::string_view bytes) {
  constexpr uint32_t kStartOfScan = 0xFFDA, kApp1 = 0xFFE1, kLowestMarker = 0xFFC0;
  constexpr uint32_t kEscaped = 0xFF00, kFill = 0xFFFF;
  const Bytes file(bytes, ByteOrder::kBig);
  Metadata metadata;
  size_t at = 2;
  while (at + 1 < bytes.size()) {
    const uint32_t marker = file.U16(at);
    if (marker < kEscaped || marker == kFill) {
      ++at;
    } else if (marker == kEscaped || IsBare(marker)) {
      at += 2;
    } else if (marker < kLowestMarker || marker == kStartOfScan) {
      break;
    } else {
      const size_t length = std::max<size_t>(file.U16(at + 2), 2);  // with its own two bytes
      if (marker == kApp1) KeepApp1(Part(bytes, at + 4, length - 2), metadata);
      at += 2 + length;
    }
  }
  return metadata;
}

// Only extended files have it, and their first chunk says of what kinds. The first of a kind
// counts.
Metadata ReadWebpMetadata(absl::string_view bytes) {
  constexpr size_t kRiffHeader = 8, kHeader = 12, kChunkHeader = 8;
  constexpr int kHasExif = 0x08, kHasXmp = 0x04;
  const Bytes file(bytes, ByteOrder::kLittle);
  bytes = bytes.substr(0, kRiffHeader + file.U32(4));
  if (bytes.size() <= kHeader + kChunkHeader || bytes.substr(kHeader, 4) != "VP8X") return {};
  const int kinds = bytes[kHeader + kChunkHeader];
  Metadata metadata;
  bool has_xmp = false;
  for (size_t at = kHeader; at + kChunkHeader <= bytes.size();) {
    const size_t length = file.U32(at + 4);
    const absl::string_view name = bytes.substr(at, 4);
    const absl::string_view data = Part(bytes, at + kChunkHeader, length);
    if (name == "EXIF" && (kinds & kHasExif) != 0 && !metadata.exif)
      metadata.exif = std::string(data);
    if (name == "XMP " && (kinds & kHasXmp) != 0 && !has_xmp) {
      has_xmp = true;
      metadata.xmp = std::string(data);
    }
    at += kChunkHeader + length + length % 2;
  }
  return metadata;
}

}  // namespace

Metadata ReadMetadata(absl::string_view bytes) {
  if (IsPng(bytes)) return ReadPngMetadata(bytes);
  if (IsJpeg(bytes)) return ReadJpegMetadata(bytes);
  return IsWebp(bytes) ? ReadWebpMetadata(bytes) : Metadata();
}

}  // namespace latentd::image
