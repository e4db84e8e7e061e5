#include "core/image/decode.h"

#include <utility>

#include "absl/strings/str_cat.h"
#include "core/base/status_macros.h"
#include "core/base/text.h"
#include "core/image/exif.h"
#include "core/image/jpeg.h"
#include "core/image/png.h"
#include "core/image/webp.h"

namespace latentd::image {
namespace {

absl::Status UnknownFormat(absl::string_view bytes) {
  return absl::InvalidArgumentError(absl::StrCat(
      "not a PNG, JPEG or WebP picture: ",
      bytes.empty() ? "it is empty"
                    : absl::StrCat("it begins with \"", Excerpt(bytes.substr(0, 8)), "\"")));
}

absl::StatusOr<Image> DecodeStored(absl::string_view bytes) {
  if (IsPng(bytes)) return DecodePng(bytes);
  if (IsJpeg(bytes)) return DecodeJpeg(bytes);
  if (IsWebp(bytes)) return DecodeWebp(bytes);
  return UnknownFormat(bytes);
}

absl::StatusOr<Dimensions> ReadStoredDimensions(absl::string_view bytes) {
  if (IsPng(bytes)) return ReadPngDimensions(bytes);
  if (IsJpeg(bytes)) return ReadJpegDimensions(bytes);
  if (IsWebp(bytes)) return ReadWebpDimensions(bytes);
  return UnknownFormat(bytes);
}

}  // namespace

absl::StatusOr<Image> Decode(absl::string_view bytes) {
  ASSIGN_OR_RETURN(Image image, DecodeStored(bytes));
  return Turned(std::move(image), OrientationOf(bytes));
}

absl::StatusOr<Dimensions> ReadDimensions(absl::string_view bytes) {
  ASSIGN_OR_RETURN(const Dimensions size, ReadStoredDimensions(bytes));
  return Turned(size, OrientationOf(bytes));
}

}  // namespace latentd::image
