// WebM: a Matroska file (RFC 9559) of VP9 frames, by a writer of its own.
//
// Frames are encoded together, when all are there: until then the file has their planes (yuv.h). So
// what players look for first can stand first: how long the video is, its colours, and where each
// frame lies that needs no other (cues). Each of these begins a cluster; there is one in 5 seconds
// at least. Times are whole milliseconds, as WebM wants them.
//
// Colours are those of yuv.h; the track's Colour element says so, and that transfer and primaries
// are sRGB's. VP9's own header says the matrix and the range.
#pragma once

#include <functional>
#include <memory>
#include <vector>

#include "absl/status/statusor.h"
#include "absl/strings/string_view.h"
#include "core/image/pixels/before_frame.h"
#include "core/image/video/video_container.h"
#include "core/image/video/video_info.h"
#include "core/image/vp9/vp9.h"

namespace latentd::image {

// As EncodeVp9 (vp9.h), which is there where it is built alone.
using EncodeFrames = std::function<absl::StatusOr<std::vector<Vp9Frame>>(
    const Vp9Video& video, absl::string_view planes, BeforeFrame before_frame)>;

// REQUIRES: CheckVideoInfo(info).
std::unique_ptr<VideoContainer> MakeWebm(const VideoInfo& info, EncodeFrames encode);

}  // namespace latentd::image
