// Animated PNG (the PNG specification, third edition), each frame a whole one.
#pragma once

#include <memory>

#include "core/image/video/video_container.h"
#include "core/image/video/video_info.h"

namespace latentd::image {

// REQUIRES: CheckVideoInfo(info).
std::unique_ptr<VideoContainer> MakeApng(const VideoInfo& info);

}  // namespace latentd::image
