#include "core/image/transparency.h"

#include <png.h>
#include <webp/decode.h>

#include <algorithm>
#include <cstdint>
#include <memory>
#include <vector>

#include "absl/algorithm/container.h"
#include "absl/strings/match.h"
#include "absl/strings/str_cat.h"
#include "core/base/errors/status_macros.h"
#include "core/image/decode.h"
#include "core/image/encode.h"

namespace latentd::image {
namespace {

constexpr size_t kChannels = 4;  // red, green, blue, alpha

absl::Status NotTransparent() {
  return absl::InvalidArgumentError(
      "has no transparency, and its transparent parts are what is drawn: send a PNG or a WebP with "
      "an alpha channel");
}

struct FreePng {
  void operator()(png_image* png) const { png_image_free(png); }
};

// Four bytes for each pixel, its alpha last.
struct Pixels {
  Dimensions size;
  std::vector<uint8_t> bytes;
};

absl::StatusOr<Pixels> ReadPng(absl::string_view file) {
  png_image png = {};
  const std::unique_ptr<png_image, FreePng> end(&png);
  png.version = PNG_IMAGE_VERSION;
  const auto failed = [&] {
    return absl::InvalidArgumentError(absl::StrCat("the PNG cannot be read: ", png.message));
  };
  if (png_image_begin_read_from_memory(&png, file.data(), file.size()) == 0) return failed();
  if ((png.format & PNG_FORMAT_FLAG_ALPHA) == 0) return NotTransparent();
  png.format = PNG_FORMAT_RGBA;
  Pixels pixels{.size = {static_cast<int>(png.width), static_cast<int>(png.height)},
                .bytes = std::vector<uint8_t>(PNG_IMAGE_SIZE(png))};
  if (png_image_finish_read(&png, nullptr, pixels.bytes.data(), 0, nullptr) == 0) return failed();
  return pixels;
}

absl::StatusOr<Pixels> ReadWebp(absl::string_view file) {
  const auto* data = reinterpret_cast<const uint8_t*>(file.data());
  WebPBitstreamFeatures features = {};
  const bool is_known = WebPGetFeatures(data, file.size(), &features) == VP8_STATUS_OK;
  if (is_known && features.has_alpha == 0) return NotTransparent();
  Pixels pixels{.size = {features.width, features.height}};
  const size_t stride = kChannels * features.width;
  pixels.bytes.resize(stride * features.height);
  const bool is_read = is_known && features.has_animation == 0 &&
                       WebPDecodeRGBAInto(data, file.size(), pixels.bytes.data(),
                                          pixels.bytes.size(), static_cast<int>(stride)) != nullptr;
  if (!is_read) return absl::InvalidArgumentError("the WebP is an animation, or cannot be read");
  return pixels;
}

absl::StatusOr<Pixels> ReadPixels(absl::string_view file) {
  if (absl::StartsWith(file, "\x89PNG")) return ReadPng(file);
  if (absl::StartsWith(file, "RIFF")) return ReadWebp(file);
  return NotTransparent();
}

}  // namespace

absl::StatusOr<TransparencyMask> MaskOfTransparency(absl::string_view bytes) {
  RETURN_IF_ERROR(ReadDimensions(bytes).status());  // refuses what is too large
  ASSIGN_OR_RETURN(const Pixels pixels, ReadPixels(bytes));
  Image mask{.width = pixels.size.width, .height = pixels.size.height, .rgb = {}};
  mask.rgb.reserve(pixels.bytes.size() / kChannels * 3);
  for (size_t at = kChannels - 1; at < pixels.bytes.size(); at += kChannels) {
    mask.rgb.insert(mask.rgb.end(), 3, static_cast<uint8_t>(255 - pixels.bytes[at]));
  }
  TransparencyMask found;
  found.draws_all = absl::c_all_of(mask.rgb, [](uint8_t grey) { return grey == 255; });
  ASSIGN_OR_RETURN(found.png, Encode(mask, {}));
  return found;
}

}  // namespace latentd::image
