#include "core/pipeline/pixels.h"

#include <algorithm>
#include <cmath>
#include <utility>

namespace latentd::pipeline {
namespace {

constexpr int64_t kChannels = 3;

// `size` over the image. What lies outside is the nearest pixel of the edge.
image::Image Cut(image::Image image, Size size) {
  if (Size{image.width, image.height} == size) return image;
  const int left = (image.width - size.width) / 2, top = (image.height - size.height) / 2;
  image::Image cut{size.width, size.height, {}};
  cut.rgb.reserve(static_cast<size_t>(size.width) * size.height * kChannels);
  for (int y = 0; y < size.height; ++y) {
    const size_t row = std::clamp(top + y, 0, image.height - 1);
    for (int x = 0; x < size.width; ++x) {
      const size_t column = std::clamp(left + x, 0, image.width - 1);
      const auto pixel = image.rgb.begin() + (row * image.width + column) * kChannels;
      cut.rgb.insert(cut.rgb.end(), pixel, pixel + kChannels);
    }
  }
  return cut;
}

uint8_t ToByte(float x) {
  // A NaN becomes 0: clamp leaves it, and std::max prefers its first argument then.
  const float unit = std::min(std::max(0.0f, x / 2 + 0.5f), 1.0f);
  return static_cast<uint8_t>(std::nearbyint(unit * 255));
}

}  // namespace

device::Buffer ToTensor(const image::Image& image) {
  device::Buffer tensor =
      device::Buffer::Allocate(device::DType::kF32, {1, kChannels, image.height, image.width});
  const absl::Span<float> planes = tensor.as<float>();
  const size_t pixels = planes.size() / kChannels;
  for (size_t i = 0; i < pixels; ++i) {
    for (size_t c = 0; c < kChannels; ++c) {
      planes[c * pixels + i] =
          2.0f * (static_cast<float>(image.rgb[i * kChannels + c]) / 255.0f) - 1.0f;
    }
  }
  return tensor;
}

image::Image ToImage(const device::Buffer& tensor) {
  image::Image image{static_cast<int>(tensor.shape()[3]), static_cast<int>(tensor.shape()[2]), {}};
  const absl::Span<const float> planes = tensor.as<float>();
  const size_t pixels = planes.size() / kChannels;
  image.rgb.resize(planes.size());
  for (size_t i = 0; i < pixels; ++i) {
    for (size_t c = 0; c < kChannels; ++c) {
      image.rgb[i * kChannels + c] = ToByte(planes[c * pixels + i]);
    }
  }
  return image;
}

image::Image CentreCrop(image::Image image, Size size) { return Cut(std::move(image), size); }

image::Image ExtendEdges(image::Image image, Size size) { return Cut(std::move(image), size); }

}  // namespace latentd::pipeline
