#include "core/image/webp.h"

#include <webp/decode.h>
#include <webp/encode.h>

#include <cstdint>
#include <memory>

#include "absl/strings/match.h"
#include "absl/strings/str_cat.h"
#include "core/base/out_of_memory.h"
#include "core/base/status_macros.h"
#include "core/base/text.h"

namespace latentd::image {
namespace {

struct WebpFree {
  void operator()(uint8_t* bytes) const { WebPFree(bytes); }
};

const uint8_t* Data(absl::string_view bytes) {
  return reinterpret_cast<const uint8_t*>(bytes.data());
}

absl::Status Damaged() { return absl::InvalidArgumentError("the WebP is damaged or cut short"); }

}  // namespace

bool IsWebp(absl::string_view bytes) {
  return absl::StartsWith(bytes, "RIFF") && bytes.size() >= 12 && bytes.substr(8, 4) == "WEBP";
}

absl::StatusOr<Dimensions> ReadWebpDimensions(absl::string_view bytes) {
  WebPBitstreamFeatures features;
  if (WebPGetFeatures(Data(bytes), bytes.size(), &features) != VP8_STATUS_OK) return Damaged();
  RETURN_IF_ERROR(CheckSize(features.width, features.height));
  if (features.has_animation != 0) {
    return absl::InvalidArgumentError("the WebP is animated; a single picture is needed");
  }
  return Dimensions{features.width, features.height};
}

absl::StatusOr<Image> DecodeWebp(absl::string_view bytes) {
  ASSIGN_OR_RETURN(const Dimensions size, ReadWebpDimensions(bytes));
  Image image{size.width, size.height, {}};
  image.rgb.resize(size_t{3} * size.width * size.height);
  WebPDecoderConfig config;
  if (WebPInitDecoderConfig(&config) == 0)
    return absl::InternalError("libwebp has another version");
  config.output.colorspace = MODE_RGB;
  config.output.u.RGBA = {image.rgb.data(), 3 * size.width, image.rgb.size()};
  config.output.is_external_memory = 1;
  const VP8StatusCode status = WebPDecode(Data(bytes), bytes.size(), &config);
  if (status == VP8_STATUS_OUT_OF_MEMORY) return OutOfMemoryError("no memory to read a WebP");
  if (status != VP8_STATUS_OK) return Damaged();
  return image;
}

absl::StatusOr<std::string> EncodeWebp(const Image& image, int quality) {
  if (image.width > WEBP_MAX_DIMENSION || image.height > WEBP_MAX_DIMENSION) {
    return absl::InvalidArgumentError(absl::StrCat("a WebP has at most ", WEBP_MAX_DIMENSION,
                                                   " pixels a side; the picture has ",
                                                   SizeText(image)));
  }
  uint8_t* encoded = nullptr;
  const size_t size = WebPEncodeRGB(image.rgb.data(), image.width, image.height, 3 * image.width,
                                    static_cast<float>(quality), &encoded);
  const std::unique_ptr<uint8_t, WebpFree> owner(encoded);
  if (size == 0) return OutOfMemoryError("no memory to write a WebP");
  return std::string(reinterpret_cast<const char*>(encoded), size);
}

}  // namespace latentd::image
