#include "core/image/video/video_format.h"

#include <cstddef>

namespace latentd::image {
namespace {

constexpr VideoFileType kTypes[] = {
    {VideoFormat::kWebp, "webp", "image/webp", "webp"},
    {VideoFormat::kApng, "apng", "image/apng", "png"},
    {VideoFormat::kAvi, "avi", "video/x-msvideo", "avi"},
    {VideoFormat::kY4m, "y4m", "video/x-yuv4mpeg", "y4m"},
    {VideoFormat::kRaw, "raw", "application/octet-stream", "rgb"},
};

}  // namespace

absl::Span<const VideoFileType> VideoFileTypes() { return kTypes; }

const VideoFileType& TypeOf(VideoFormat format) { return kTypes[static_cast<size_t>(format)]; }

std::optional<VideoFormat> FindVideoFormat(absl::string_view name) {
  for (const VideoFileType& type : kTypes) {
    if (type.name == name) return type.format;
  }
  return std::nullopt;
}

}  // namespace latentd::image
