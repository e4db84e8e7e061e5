#include "core/pipeline/picture/pixels.h"

#include <algorithm>
#include <memory>
#include <utility>

#include "absl/strings/str_cat.h"
#include "core/base/errors/error_details.h"
#include "core/base/errors/status_macros.h"
#include "core/image/decode.h"

namespace latentd::pipeline {
namespace {

constexpr int64_t kChannels = 3;

// `size` over an image of bytes. What lies outside is the nearest pixel of the edge.
image::Image Cut(absl::Span<const uint8_t> rgb, Size from, Size size) {
  image::Image cut{size.width, size.height, {}};
  if (from == size) {
    cut.rgb.assign(rgb.begin(), rgb.end());
    return cut;
  }
  const int left = (from.width - size.width) / 2, top = (from.height - size.height) / 2;
  const int inner_end = std::min(left + size.width, from.width), inner = std::max(left, 0);
  cut.rgb.reserve(static_cast<size_t>(size.width) * size.height * kChannels);
  const auto append = [&](auto row, int begin, int end) {
    cut.rgb.insert(cut.rgb.end(), row + begin * kChannels, row + end * kChannels);
  };
  for (int y = 0; y < size.height; ++y) {
    const auto row =
        rgb.begin() + int64_t{std::clamp(top + y, 0, from.height - 1)} * from.width * kChannels;
    for (int x = left; x < 0; ++x) append(row, 0, 1);
    append(row, inner, inner_end);
    for (int x = inner_end; x < left + size.width; ++x) append(row, from.width - 1, from.width);
  }
  return cut;
}

}  // namespace

absl::StatusOr<MemoryRoom> TakeRoomForPixels(absl::string_view file, absl::string_view name) {
  constexpr int64_t kAtATime = 3;
  const image::Dimensions size = image::ReadDimensions(file).value_or(image::Dimensions());
  return MemoryRoom::Take(kChannels * kAtATime * size.width * size.height, name);
}

absl::StatusOr<image::Image> DecodeField(absl::string_view file, const std::string& field,
                                         std::vector<std::string>& warnings) {
  image::PassedOver passed_over;
  absl::StatusOr<image::Image> decoded = image::Decode(file, passed_over);
  if (absl::IsInvalidArgument(decoded.status())) {
    return InvalidFields({{field, std::string(decoded.status().message())}});
  }
  RETURN_IF_ERROR(decoded.status());
  for (const std::string& sentence : passed_over) {
    warnings.push_back(absl::StrCat(field, ": ", sentence));
  }
  return decoded;
}

device::Buffer ToPixels(image::Image image) {
  const Size size{image.width, image.height};
  const auto owner = std::make_shared<image::Image>(std::move(image));
  return device::Buffer::Wrap(owner->rgb.data(), device::DType::kU8,
                              {1, size.height, size.width, kChannels}, owner);
}

image::Image CentreOf(const device::Buffer& pixels, Size size) {
  const device::Shape& shape = pixels.shape();
  return Cut(pixels.as<uint8_t>(), {static_cast<int>(shape[2]), static_cast<int>(shape[1])}, size);
}

image::Image ExtendEdges(image::Image image, Size size) {
  const Size from{image.width, image.height};
  return from == size ? std::move(image) : Cut(image.rgb, from, size);
}

}  // namespace latentd::pipeline
