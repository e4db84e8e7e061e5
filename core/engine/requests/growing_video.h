// The file of a video while its frames come, of a request that wants one in place of files of its
// frames (VideoFile).
#pragma once

#include <cstddef>
#include <cstdint>
#include <memory>

#include "absl/status/statusor.h"
#include "absl/types/span.h"
#include "core/engine/api/events.h"
#include "core/engine/requests/job.h"
#include "core/image/pixels/before_frame.h"
#include "core/image/pixels/pixels.h"
#include "core/image/pixels/run_parts.h"
#include "core/image/video/video_file.h"

namespace latentd::engine {

// One thread at a time.
class GrowingVideo {
 public:
  // REQUIRES: the job's videos become files.
  GrowingVideo(const Job& job, int index, uint64_t seed);

  // The next frames of the video, in order; and what of its file is final since the last call, as
  // a part of it, without bytes where nothing is. `before_frame` is called before each frame that
  // is encoded, now or with the last one. After an error, which may be its, or std::bad_alloc, the
  // file can get no further.
  absl::StatusOr<Image> Add(absl::Span<const image::Image> frames, const image::RunParts& run_parts,
                            image::BeforeFrame before_frame);

  // Bytes that it holds.
  size_t held_bytes() const { return writer_ == nullptr ? 0 : writer_->held_bytes(); }

 private:
  const int index_;
  const uint64_t seed_;
  const image::VideoFormat format_;
  const image::VideoInfo info_;
  std::unique_ptr<image::VideoWriter> writer_;  // null: no frame has come
  int added_ = 0, told_ = 0;                    // frames; those of the parts so far
  int64_t offset_ = 0;                          // bytes of the parts so far
};

}  // namespace latentd::engine
