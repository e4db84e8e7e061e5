#include "core/image/decode.h"

#include <algorithm>
#include <string>
#include <utility>

#include "absl/strings/match.h"
#include "absl/strings/str_cat.h"
#include "core/base/errors/status_macros.h"
#include "core/base/text/text.h"
#include "core/image/exif.h"
#include "core/image/jpeg.h"
#include "core/image/png/png.h"
#include "core/image/webp.h"

namespace latentd::image {
namespace {

struct OtherFormat {
  absl::string_view name;
  size_t offset;
  absl::string_view begin;  // beginning of its files, at `offset`
};

// Formats that people have pictures in, and that are not read here.
constexpr OtherFormat kOtherFormats[] = {
    {"a GIF", 0, "GIF8"},
    {"a BMP", 0, "BM"},
    {"a TIFF", 0, absl::string_view("II*\0", 4)},
    {"a TIFF", 0, absl::string_view("MM\0*", 4)},
    {"an AVIF", 4, "ftypavi"},
    {"a HEIF", 4, "ftyphei"},
    {"a HEIF", 4, "ftypmif"},
    {"a JPEG XL", 0, "\xFF\x0A"},
    {"a JPEG XL", 4, "JXL "},
    {"a JPEG 2000", 4, "jP  "},
    {"an SVG", 0, "<svg"},
};

std::string NameOf(absl::string_view bytes) {
  if (bytes.empty()) return "it is empty";
  for (const OtherFormat& format : kOtherFormats) {
    if (absl::StartsWith(bytes.substr(std::min(format.offset, bytes.size())), format.begin)) {
      return absl::StrCat("it is ", format.name);
    }
  }
  return absl::StrCat("it begins with \"", Excerpt(bytes.substr(0, 8)), "\"");
}

absl::Status UnknownFormat(absl::string_view bytes) {
  return absl::InvalidArgumentError(
      absl::StrCat("not a PNG, JPEG or WebP picture: ", NameOf(bytes)));
}

absl::StatusOr<Image> DecodeStored(absl::string_view bytes, PassedOver& passed_over) {
  if (IsPng(bytes)) return DecodePng(bytes, passed_over);
  if (IsJpeg(bytes)) return DecodeJpeg(bytes, passed_over);
  if (IsWebp(bytes)) return DecodeWebp(bytes, passed_over);
  return UnknownFormat(bytes);
}

absl::StatusOr<Dimensions> ReadStoredDimensions(absl::string_view bytes) {
  if (IsPng(bytes)) return ReadPngDimensions(bytes);
  if (IsJpeg(bytes)) return ReadJpegDimensions(bytes);
  if (IsWebp(bytes)) return ReadWebpDimensions(bytes);
  return UnknownFormat(bytes);
}

}  // namespace

absl::StatusOr<Image> Decode(absl::string_view bytes, PassedOver& passed_over) {
  ASSIGN_OR_RETURN(Image image, DecodeStored(bytes, passed_over));
  return Turned(std::move(image), OrientationOf(bytes));
}

absl::StatusOr<Image> Decode(absl::string_view bytes) {
  PassedOver passed_over;
  return Decode(bytes, passed_over);
}

absl::StatusOr<Dimensions> ReadDimensions(absl::string_view bytes) {
  ASSIGN_OR_RETURN(const Dimensions size, ReadStoredDimensions(bytes));
  return Turned(size, OrientationOf(bytes));
}

}  // namespace latentd::image
