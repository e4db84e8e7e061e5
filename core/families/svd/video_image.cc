#include "core/families/svd/video_image.h"

#include <vector>

#include "absl/algorithm/container.h"
#include "core/base/errors/status_macros.h"
#include "core/image/pixels/antialias.h"
#include "core/image/pixels/resize.h"

namespace latentd::families::svd {

absl::StatusOr<device::Buffer> EncoderPixels(const VideoConfigs& configs,
                                             const image::Image& image) {
  ASSIGN_OR_RETURN(const std::vector<float> planes,
                   image::ResizeAntialiased(image, kEncodedSide, kEncodedSide));
  auto pixels = device::Buffer::Allocate(device::DType::kF32, {1, 3, kEncodedSide, kEncodedSide});
  const size_t plane = planes.size() / 3;
  const absl::Span<float> normed = pixels.as<float>();
  for (size_t i = 0; i < planes.size(); ++i) {
    const float unit = (planes[i] + 1) / 2;
    normed[i] = (unit - configs.image_mean[i / plane]) / configs.image_std[i / plane];
  }
  return pixels;
}

absl::StatusOr<device::Buffer> VaePixels(const image::Image& image, int width, int height) {
  ASSIGN_OR_RETURN(const image::Image resized, image::ResizeLanczos(image, width, height));
  auto pixels = device::Buffer::Allocate(device::DType::kU8, {1, height, width, 3});
  absl::c_copy(resized.rgb, pixels.as<uint8_t>().begin());
  return pixels;
}

}  // namespace latentd::families::svd
