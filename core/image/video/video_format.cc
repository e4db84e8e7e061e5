#include "core/image/video/video_format.h"

#include <cstddef>

#include "absl/strings/str_cat.h"
#include "core/base/errors/error_details.h"

namespace latentd::image {
namespace {

#ifdef LATENTD_WEBM
constexpr bool kHasWebm = true;
#else
constexpr bool kHasWebm = false;
#endif

constexpr VideoFileType kTypes[] = {
    {VideoFormat::kWebp, "webp", "image/webp", "webp", /*has_quality=*/true, /*holds_text=*/true,
     /*is_built_in=*/true},
    {VideoFormat::kApng, "apng", "image/apng", "png", /*has_quality=*/false, /*holds_text=*/true,
     /*is_built_in=*/true},
    {VideoFormat::kAvi, "avi", "video/x-msvideo", "avi", /*has_quality=*/true, /*holds_text=*/true,
     /*is_built_in=*/true},
    {VideoFormat::kY4m, "y4m", "video/x-yuv4mpeg", "y4m", /*has_quality=*/false,
     /*holds_text=*/false, /*is_built_in=*/true},
    {VideoFormat::kRaw, "raw", "application/octet-stream", "rgb", /*has_quality=*/false,
     /*holds_text=*/false, /*is_built_in=*/true},
    {VideoFormat::kWebm, "webm", "video/webm", "webm", /*has_quality=*/true, /*holds_text=*/true,
     kHasWebm},
};

}  // namespace

absl::Span<const VideoFileType> VideoFileTypes() { return kTypes; }

const VideoFileType& TypeOf(VideoFormat format) { return kTypes[static_cast<size_t>(format)]; }

absl::Status CheckBuiltIn(const VideoFileType& type) {
  if (type.is_built_in) return absl::OkStatus();
  return WithReason(
      absl::FailedPreconditionError(absl::StrCat(
          "this latentd writes no ", type.name,
          ": ask for another format, or build it with -DLATENTD_WEBM=ON and libvpx (Debian's "
          "libvpx-dev)")),
      "FORMAT_UNAVAILABLE");
}

}  // namespace latentd::image
