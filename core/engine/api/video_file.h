// One file of a whole video, in place of files of its frames. Plain data.
#pragma once

#include <optional>

#include "core/image/video/video_format.h"

namespace latentd::engine {

struct VideoFile {
  image::VideoFormat format = image::VideoFormat::kWebp;
  int quality = 90;                    // 1 to 100, of WebP, AVI and WebM
  std::optional<double> playback_fps;  // frames a second that players show: the video's fps
  bool embed_parameters = true;        // say in it what made the video, where the format can
};

}  // namespace latentd::engine
