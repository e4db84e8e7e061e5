#include "core/engine/requests/growing_video.h"

#include <string>
#include <utility>

#include "core/base/errors/status_macros.h"
#include "core/engine/requests/picture_file.h"

namespace latentd::engine {
namespace {

image::VideoInfo InfoOf(const Job& job, uint64_t seed) {
  const pipeline::VideoSpec& video = *job.plan->spec.video;
  const VideoFile& file = *job.spec.video_file;
  return {.width = video.width,
          .height = video.height,
          .frames = *video.num_frames,
          .fps = file.playback_fps.value_or(video.fps),
          .quality = file.quality,
          .parameters = file.embed_parameters ? VideoParametersOf(job, seed) : ""};
}

}  // namespace

GrowingVideo::GrowingVideo(const Job& job, int index, uint64_t seed)
    : index_(index), seed_(seed), format_(job.spec.video_file->format), info_(InfoOf(job, seed)) {}

absl::StatusOr<Image> GrowingVideo::Add(absl::Span<const image::Image> frames,
                                        const image::RunParts& run_parts,
                                        image::BeforeFrame before_frame) {
  if (writer_ == nullptr) {
    ASSIGN_OR_RETURN(writer_, image::MakeVideoWriter(format_, info_));
  }
  RETURN_IF_ERROR(writer_->Add(frames, run_parts, before_frame));
  added_ += static_cast<int>(frames.size());
  VideoPart part = {.format = format_,
                    .video_frames = info_.frames,
                    .offset = offset_,
                    .is_last = added_ == info_.frames};
  Image image = {.index = index_, .seed = seed_, .size = {info_.width, info_.height}};
  if (part.is_last) {
    ASSIGN_OR_RETURN(image.bytes, writer_->Finish(before_frame));
  } else {
    image.bytes = writer_->Take();
  }
  if (!image.bytes.empty()) part.frames = added_ - std::exchange(told_, added_);
  offset_ += static_cast<int64_t>(image.bytes.size());
  image.part = part;
  return image;
}

}  // namespace latentd::engine
