// Animated WebP, by libwebp's encoder of single images.
//
// Each frame is a whole one. libwebp's own encoder of animations (libwebpmux) keeps what a frame
// has in common with the one before it, which decoded videos, having grain everywhere, do not
// reward: on 25 frames of 1024x576 with a standard deviation of 3 its file has as many bytes,
// in 1.5 times the time, by one thread. Whole frames are encoded apart from each other.
#pragma once

#include <memory>

#include "core/image/video/video_container.h"
#include "core/image/video/video_info.h"

namespace latentd::image {

// REQUIRES: CheckVideoInfo(info).
std::unique_ptr<VideoContainer> MakeAnimatedWebp(const VideoInfo& info);

}  // namespace latentd::image
