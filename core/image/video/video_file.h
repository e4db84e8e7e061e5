// Frames to the bytes of a file that holds them as a video.
#pragma once

#include <cstddef>
#include <memory>
#include <string>

#include "absl/status/statusor.h"
#include "absl/types/span.h"
#include "core/image/pixels/before_frame.h"
#include "core/image/pixels/pixels.h"
#include "core/image/pixels/run_parts.h"
#include "core/image/video/video_container.h"
#include "core/image/video/video_format.h"
#include "core/image/video/video_info.h"

namespace latentd::image {

// A file while its frames arrive, a chunk at a time. It holds the file's bytes so far that were not
// taken, and while it adds frames these once more, encoded; pixels it does not keep. The same video
// gives the same bytes, however its frames are divided among calls and whichever threads run the
// parts.
//
// A call that fails, or throws std::bad_alloc, leaves the file as it was: it may be made again. Not
// thread-safe.
class VideoWriter {
 public:
  // `container` is one for `info`. For MakeVideoWriter and tests.
  VideoWriter(VideoFormat format, VideoInfo info, std::unique_ptr<VideoContainer> container);

  // The next frames of the video, in order; each is encoded as a part of its own, and
  // `before_frame` called before it, in the part.
  //
  // INVALID_ARGUMENT: a frame is malformed or has another size than the video, or the file gets
  // larger than its format can hold (4 GiB for WebP and AVI). FAILED_PRECONDITION: the video has
  // fewer frames, or is finished. RESOURCE_EXHAUSTED with reason OUT_OF_MEMORY: no memory to encode
  // one. Errors of `before_frame`.
  absl::Status Add(absl::Span<const Image> frames, const RunParts& run_parts = RunPartsHere,
                   BeforeFrame before_frame = GoOn);
  absl::Status Add(const Image& frame) { return Add(absl::MakeConstSpan(&frame, 1)); }

  // The next bytes of the file, as far as nothing changes them any more, which this holds no
  // longer. None of WebP, AVI and WebM, which begin with what is known when all frames are there:
  // all of theirs come at the end.
  std::string Take();

  // Bytes that it holds.
  size_t held_bytes() const { return file_.size(); }

  // The file behind what was taken of it, which this holds no longer. All frames of a WebM are
  // encoded here, by this thread; `before_frame` is called before each. FAILED_PRECONDITION: frames
  // are missing, or it is finished. Errors of `before_frame`.
  absl::StatusOr<std::string> Finish(BeforeFrame before_frame = GoOn);

 private:
  absl::Status CheckFrames(absl::Span<const Image> frames) const;
  absl::Status Append(absl::Span<absl::StatusOr<std::string>> encoded);

  const VideoFormat format_;
  const VideoInfo info_;
  const std::unique_ptr<const VideoContainer> container_;
  std::string file_;
  int added_ = 0;  // frames in file_
  bool finished_ = false;
};

// The text of info.parameters is in a WebP as EXIF's user comment, where AUTOMATIC1111's
// web UI writes and looks for it; in an APNG as an iTXt chunk "parameters", as in a PNG (encode.h);
// in an AVI as INFO's comment (ICMT); in a WebM as the tag COMMENT. y4m and raw hold none: readers
// of y4m take its header for at most 80 bytes.
//
// The speed is kept exactly, as the ratio of FrameRateOf, but for WebP and WebM, whose frames
// begin on whole milliseconds. WebP and APNG repeat for ever; browsers show a frame of theirs for
// no less than some 10 ms.
//
// INVALID_ARGUMENT for what CheckVideoInfo refuses; FAILED_PRECONDITION for a format that is not
// built in (CheckBuiltIn). Throws std::bad_alloc.
absl::StatusOr<std::unique_ptr<VideoWriter>> MakeVideoWriter(VideoFormat format,
                                                             const VideoInfo& info);

}  // namespace latentd::image
