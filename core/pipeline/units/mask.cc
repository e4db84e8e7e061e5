#include "core/pipeline/units/mask.h"

#include <cstdint>
#include <string>

#include "core/base/errors/status_macros.h"
#include "core/image/pixels/blur.h"
#include "core/image/pixels/grey.h"
#include "core/pipeline/units/pixels.h"

namespace latentd::pipeline {
namespace {

constexpr int kWhite = 128;  // the least grey that is drawn over: 127 / 255 is less than a half

}  // namespace

Mask MaskOf(const image::Image& image, int downscale) {
  const int64_t height = image.height, width = image.width;
  Mask mask;
  mask.keep = device::Buffer::Allocate(device::DType::kU8, {1, height, width, 1});
  const absl::Span<uint8_t> keep = mask.keep.as<uint8_t>();
  for (size_t pixel = 0; pixel < keep.size(); ++pixel) {
    keep[pixel] = image::GreyOf(&image.rgb[3 * pixel]) < kWhite ? 1 : 0;
  }
  const int64_t rows = height / downscale, columns = width / downscale;
  mask.latents = device::Buffer::Allocate(device::DType::kF32, {1, 1, rows, columns});
  const absl::Span<float> latents = mask.latents.as<float>();
  for (int64_t y = 0; y < rows; ++y) {
    for (int64_t x = 0; x < columns; ++x) {
      const int64_t pixel = (y * width + x) * downscale;
      latents[y * columns + x] = keep[pixel] == 0 ? 1.0f : 0.0f;
    }
  }
  return mask;
}

absl::StatusOr<image::Image> DecodeMask(absl::string_view file, int blur,
                                        std::vector<std::string>& warnings) {
  ASSIGN_OR_RETURN(const image::Image decoded, DecodeField(file, "mask_image", warnings));
  return image::GaussianBlur(decoded, blur);
}

}  // namespace latentd::pipeline
