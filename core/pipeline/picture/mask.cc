#include "core/pipeline/picture/mask.h"

#include <cstdint>
#include <string>

#include "core/base/errors/status_macros.h"
#include "core/image/pixels/blur.h"
#include "core/image/pixels/grey.h"
#include "core/pipeline/lanes/pinned.h"
#include "core/pipeline/picture/pixels.h"

namespace latentd::pipeline {
namespace {

constexpr int kWhite = 128;  // the least grey that is drawn over: 127 / 255 is less than a half

// By torch's interpolation, which is bilinear between the pixels beside the latent's middle.
std::vector<float> StaysOf(const image::Image& image, int downscale) {
  const auto darkness = [&](int x, int y) {
    const size_t pixel = static_cast<size_t>(y) * image.width + x;
    return static_cast<float>(255 - image::GreyOf(&image.rgb[3 * pixel])) / 255.0f;
  };
  const int before = (downscale - 1) / 2, behind = downscale / 2;
  std::vector<float> stays;
  for (int y = 0; y + downscale <= image.height; y += downscale) {
    for (int x = 0; x + downscale <= image.width; x += downscale) {
      const auto mean_of_row = [&](int row) {
        return 0.5f * darkness(x + before, row) + 0.5f * darkness(x + behind, row);
      };
      stays.push_back(0.5f * mean_of_row(y + before) + 0.5f * mean_of_row(y + behind));
    }
  }
  return stays;
}

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
  mask.stays = StaysOf(image, downscale);
  return mask;
}

absl::StatusOr<device::Buffer> MaskAt(const Mask& mask, float passed, device::Device& device) {
  std::vector<float> drawn;
  drawn.reserve(mask.stays.size());
  for (const float stays : mask.stays) drawn.push_back(stays > passed ? 0.0f : 1.0f);
  return Pinned(device, device::DType::kF32, mask.latents.shape(), absl::MakeConstSpan(drawn));
}

absl::StatusOr<image::Image> DecodeMask(absl::string_view file, int blur,
                                        std::vector<std::string>& warnings) {
  ASSIGN_OR_RETURN(const image::Image decoded, DecodeField(file, "mask_image", warnings));
  return image::GaussianBlur(decoded, blur);
}

}  // namespace latentd::pipeline
