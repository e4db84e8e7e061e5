#include "core/pipeline/units/mask.h"

#include <cstdint>
#include <string>
#include <utility>

#include "core/base/errors/error_details.h"
#include "core/base/errors/status_macros.h"
#include "core/image/decode.h"
#include "core/image/pixels/resize.h"
#include "core/pipeline/units/pixels.h"

namespace latentd::pipeline {
namespace {

constexpr int kWhite = 128;  // the least grey that is drawn over: 127 / 255 is less than a half

// As Pillow's convert("L"): in 16 bits after the point, rounded.
int GreyOf(const uint8_t* rgb) {
  constexpr int kRed = 19595, kGreen = 38470, kBlue = 7471, kHalf = 1 << 15, kBits = 16;
  return (kRed * rgb[0] + kGreen * rgb[1] + kBlue * rgb[2] + kHalf) >> kBits;
}

}  // namespace

Mask MaskOf(const image::Image& image, int downscale) {
  const int64_t height = image.height, width = image.width;
  Mask mask;
  mask.keep = device::Buffer::Allocate(device::DType::kU8, {1, height, width, 1});
  const absl::Span<uint8_t> keep = mask.keep.as<uint8_t>();
  for (size_t pixel = 0; pixel < keep.size(); ++pixel) {
    keep[pixel] = GreyOf(&image.rgb[3 * pixel]) < kWhite ? 1 : 0;
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

absl::StatusOr<Mask> ReadMask(absl::string_view file, Size size, Size executed, int downscale,
                              image::PassedOver& passed_over) {
  const absl::StatusOr<image::Image> decoded = image::Decode(file, passed_over);
  if (absl::IsInvalidArgument(decoded.status())) {
    return InvalidFields({{"mask_image", std::string(decoded.status().message())}});
  }
  RETURN_IF_ERROR(decoded.status());
  ASSIGN_OR_RETURN(image::Image resized, image::ResizeLanczos(*decoded, size.width, size.height));
  return MaskOf(ExtendEdges(std::move(resized), executed), downscale);
}

}  // namespace latentd::pipeline
