// AVI with Motion JPEG: a file of the first AVI specification, under 4 GiB, with an index.
#pragma once

#include <memory>

#include "core/image/video/video_container.h"
#include "core/image/video/video_info.h"

namespace latentd::image {

// REQUIRES: CheckVideoInfo(info).
std::unique_ptr<VideoContainer> MakeAvi(const VideoInfo& info);

}  // namespace latentd::image
