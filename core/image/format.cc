#include "core/image/format.h"

namespace latentd::image {

absl::string_view MimeType(Format format) {
  switch (format) {
    case Format::kPng:
      return "image/png";
    case Format::kJpeg:
      return "image/jpeg";
    case Format::kWebp:
      return "image/webp";
    case Format::kRawRgb8:
    case Format::kLatent:
    case Format::kEmbeds:
      return "application/octet-stream";
  }
  return "application/octet-stream";
}

}  // namespace latentd::image
