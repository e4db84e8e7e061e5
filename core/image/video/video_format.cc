#include "core/image/video/video_format.h"

#include <cstddef>

namespace latentd::image {
namespace {

constexpr VideoFileType kTypes[] = {
    {VideoFormat::kWebp, "webp", "image/webp", "webp", /*has_quality=*/true, /*holds_text=*/true},
    {VideoFormat::kApng, "apng", "image/apng", "png", /*has_quality=*/false, /*holds_text=*/true},
    {VideoFormat::kAvi, "avi", "video/x-msvideo", "avi", /*has_quality=*/true, /*holds_text=*/true},
    {VideoFormat::kY4m, "y4m", "video/x-yuv4mpeg", "y4m", /*has_quality=*/false,
     /*holds_text=*/false},
    {VideoFormat::kRaw, "raw", "application/octet-stream", "rgb", /*has_quality=*/false,
     /*holds_text=*/false},
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
