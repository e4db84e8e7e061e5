#include "core/image/video/video_info.h"

#include "absl/strings/str_cat.h"
#include "core/base/errors/status_macros.h"
#include "core/image/pixels/pixels.h"
#include "core/image/video/frame_rate.h"

namespace latentd::image {

absl::Status CheckVideoInfo(const VideoInfo& info) {
  RETURN_IF_ERROR(CheckSize(info.width, info.height));
  if (info.frames < 1 || info.frames > kMaxVideoFrames) {
    return absl::InvalidArgumentError(absl::StrCat("the video has ", info.frames, " frames; 1 to ",
                                                   kMaxVideoFrames, " are needed"));
  }
  if (!(info.fps >= kMinFps && info.fps <= kMaxFps)) {  // nor is it that of NaN
    return absl::InvalidArgumentError(
        absl::StrCat("fps is ", info.fps, "; ", kMinFps, " to ", kMaxFps, " is needed"));
  }
  if (info.quality < 1 || info.quality > 100) {
    return absl::InvalidArgumentError(
        absl::StrCat("quality is ", info.quality, "; 1 to 100 is needed"));
  }
  return absl::OkStatus();
}

}  // namespace latentd::image
