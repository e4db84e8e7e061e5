#include "core/image/pixels/pixels.h"

#include "absl/strings/str_cat.h"
#include "core/base/text/text.h"

namespace latentd::image {

absl::Status CheckSize(int64_t width, int64_t height) {
  if (width < 1 || height < 1) {
    return absl::InvalidArgumentError(absl::StrCat("the picture has ", SizeText(width, height),
                                                   " pixels; at least 1x1 is needed"));
  }
  if (width > kMaxSide || height > kMaxSide || width * height > static_cast<int64_t>(kMaxPixels)) {
    return absl::InvalidArgumentError(absl::StrCat("the picture has ", SizeText(width, height),
                                                   " pixels; at most ", kMaxSide, " a side and ",
                                                   kMaxPixels, " in all are taken"));
  }
  return absl::OkStatus();
}

absl::Status CheckImage(const Image& image) {
  const size_t expected = image.width < 1 || image.height < 1
                              ? 0
                              : size_t{3} * static_cast<size_t>(image.width) * image.height;
  if (expected != 0 && image.rgb.size() == expected) return absl::OkStatus();
  return absl::InvalidArgumentError(
      absl::StrCat("a picture of ", SizeText(image), " has ", image.rgb.size(), " bytes"));
}

}  // namespace latentd::image
