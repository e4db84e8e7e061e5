#include "core/image/encode.h"

#include "absl/strings/str_cat.h"
#include "core/base/errors/status_macros.h"
#include "core/image/jpeg.h"
#include "core/image/png/png.h"
#include "core/image/webp.h"

namespace latentd::image {

absl::StatusOr<std::string> Encode(const Image& image, const EncodeOptions& options,
                                   absl::string_view parameters, const RunParts& run_parts) {
  RETURN_IF_ERROR(CheckImage(image));
  const bool lossy = options.format == Format::kJpeg || options.format == Format::kWebp;
  if (lossy && (options.quality < 1 || options.quality > 100)) {
    return absl::InvalidArgumentError(
        absl::StrCat("quality is ", options.quality, "; 1 to 100 is needed"));
  }
  switch (options.format) {
    case Format::kPng:
      return EncodePng(image, options.embed_parameters ? parameters : absl::string_view(),
                       run_parts);
    case Format::kJpeg:
      return EncodeJpeg(image, options.quality);
    case Format::kWebp:
      return EncodeWebp(image, options.quality);
    case Format::kRawRgb8:
      return std::string(image.rgb.begin(), image.rgb.end());
    case Format::kLatent:
    case Format::kEmbeds:
      break;
  }
  return absl::InvalidArgumentError(
      absl::StrCat("there is no picture format ", static_cast<int>(options.format)));
}

}  // namespace latentd::image
