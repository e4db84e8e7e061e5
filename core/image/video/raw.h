// Raw frames, one behind the other: height x width x 3 bytes each.
#pragma once

#include <memory>

#include "core/image/video/video_container.h"
#include "core/image/video/video_info.h"

namespace latentd::image {

// REQUIRES: CheckVideoInfo(info).
std::unique_ptr<VideoContainer> MakeRaw(const VideoInfo& info);

}  // namespace latentd::image
