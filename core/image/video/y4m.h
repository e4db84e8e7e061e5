// YUV4MPEG2, to be piped into an encoder: the planes of yuv.h.
//
// Range and place of chroma are said in the header. A matrix y4m cannot say: BT.601 is what ffmpeg
// takes where none is said, at any size, and many players up to 576 lines. For more lines it is to
// be told, so that it tells players: ffmpeg -colorspace smpte170m -i FILE.
#pragma once

#include <memory>

#include "core/image/video/video_container.h"
#include "core/image/video/video_info.h"

namespace latentd::image {

// REQUIRES: CheckVideoInfo(info).
std::unique_ptr<VideoContainer> MakeY4m(const VideoInfo& info);

}  // namespace latentd::image
