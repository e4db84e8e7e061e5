// YUV4MPEG2, to be piped into an encoder: 4:2:0, BT.601, limited range (luma 16 to 235), chroma in
// the middle of its four pixels, of which it is the mean; at an odd width or height the last column
// or row has its own.
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
