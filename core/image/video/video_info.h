// A video as its file is begun, before any frame is there.
#pragma once

#include <string>

#include "absl/status/status.h"

namespace latentd::image {

inline constexpr int kMaxVideoFrames = 1'000'000;

struct VideoInfo {
  int width = 0;  // pixels of each frame
  int height = 0;
  int frames = 0;    // 1 to kMaxVideoFrames
  double fps = 7;    // frames a second, kMinFps to kMaxFps (frame_rate.h)
  int quality = 90;  // 1..100, of formats with a quality (video_format.h) only
  // UTF-8, see parameters.h: what made the video. Empty: nothing is said.
  std::string parameters;
};

// INVALID_ARGUMENT with the reason unless a file of such a video can be begun.
absl::Status CheckVideoInfo(const VideoInfo& info);

}  // namespace latentd::image
