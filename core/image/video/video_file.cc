#include "core/image/video/video_file.h"

#include <cstddef>
#include <utility>
#include <vector>

#include "absl/cleanup/cleanup.h"
#include "absl/strings/str_cat.h"
#include "core/base/errors/out_of_memory.h"
#include "core/base/errors/status_macros.h"
#include "core/base/text/text.h"
#include "core/image/video/animated_webp.h"
#include "core/image/video/apng.h"
#include "core/image/video/avi.h"
#include "core/image/video/raw.h"
#include "core/image/video/webm.h"
#include "core/image/video/y4m.h"

namespace latentd::image {
namespace {

std::unique_ptr<VideoContainer> MakeContainer(VideoFormat format, const VideoInfo& info) {
  switch (format) {
    case VideoFormat::kWebp:
      return MakeAnimatedWebp(info);
    case VideoFormat::kApng:
      return MakeApng(info);
    case VideoFormat::kAvi:
      return MakeAvi(info);
    case VideoFormat::kY4m:
      return MakeY4m(info);
    case VideoFormat::kRaw:
      return MakeRaw(info);
    case VideoFormat::kWebm:
#ifdef LATENTD_WEBM
      return MakeWebm(info, EncodeVp9);
#else
      return nullptr;
#endif
  }
  return nullptr;
}

}  // namespace

VideoWriter::VideoWriter(VideoFormat format, VideoInfo info,
                         std::unique_ptr<VideoContainer> container)
    : format_(format), info_(std::move(info)), container_(std::move(container)) {
  container_->Begin(file_);
}

absl::Status VideoWriter::CheckFrames(absl::Span<const Image> frames) const {
  if (finished_) return absl::FailedPreconditionError("the video's file is finished");
  if (frames.size() > static_cast<size_t>(info_.frames - added_)) {
    return absl::FailedPreconditionError(absl::StrCat("the video has ", info_.frames, " frames; ",
                                                      added_ + frames.size(), " are added"));
  }
  for (const Image& frame : frames) {
    RETURN_IF_ERROR(CheckImage(frame));
    if (frame.width == info_.width && frame.height == info_.height) continue;
    return absl::InvalidArgumentError(
        absl::StrCat("a frame of ", SizeText(frame), " is added to a video of ", SizeText(info_)));
  }
  return absl::OkStatus();
}

absl::Status VideoWriter::Add(absl::Span<const Image> frames, const RunParts& run_parts,
                              BeforeFrame before_frame) {
  RETURN_IF_ERROR(CheckFrames(frames));
  std::vector<absl::StatusOr<std::string>> encoded(frames.size());
  run_parts(static_cast<int>(frames.size()), [&](int i) {
    const absl::Status goes_on = before_frame();
    encoded[i] =
        !goes_on.ok() ? goes_on : CatchOutOfMemory([&] { return container_->Encode(frames[i]); });
  });
  return Append(absl::MakeSpan(encoded));
}

absl::Status VideoWriter::Append(absl::Span<absl::StatusOr<std::string>> encoded) {
  absl::Cleanup undo = [this, bytes = file_.size()] { file_.resize(bytes); };
  for (size_t i = 0; i < encoded.size(); ++i) {
    RETURN_IF_ERROR(encoded[i].status());
    container_->Append(added_ + static_cast<int>(i), *encoded[i], file_);
    encoded[i] = std::string();  // its memory
    if (file_.size() <= container_->MostBytes()) continue;
    return absl::InvalidArgumentError(absl::StrCat("a video of ", SizeText(info_), " with ",
                                                   info_.frames, " frames is too large for ",
                                                   TypeOf(format_).name));
  }
  std::move(undo).Cancel();
  added_ += static_cast<int>(encoded.size());
  return absl::OkStatus();
}

std::string VideoWriter::Take() {
  return container_->IsFinalAsAdded() ? std::exchange(file_, {}) : std::string();
}

absl::StatusOr<std::string> VideoWriter::Finish(BeforeFrame before_frame) {
  if (finished_) return absl::FailedPreconditionError("the video's file is finished");
  if (added_ < info_.frames) {
    return absl::FailedPreconditionError(
        absl::StrCat("the video has ", added_, " of its ", info_.frames, " frames"));
  }
  absl::Cleanup undo = [this, bytes = file_.size()] { file_.resize(bytes); };
  RETURN_IF_ERROR(container_->End(file_, before_frame));
  std::move(undo).Cancel();
  finished_ = true;
  return std::move(file_);
}

absl::StatusOr<std::unique_ptr<VideoWriter>> MakeVideoWriter(VideoFormat format,
                                                             const VideoInfo& info) {
  RETURN_IF_ERROR(CheckVideoInfo(info));
  if (static_cast<size_t>(format) >= VideoFileTypes().size()) {
    return absl::InvalidArgumentError(
        absl::StrCat("there is no video format ", static_cast<int>(format)));
  }
  RETURN_IF_ERROR(CheckBuiltIn(TypeOf(format)));
  std::unique_ptr<VideoContainer> container = MakeContainer(format, info);
  return std::make_unique<VideoWriter>(format, info, std::move(container));
}

}  // namespace latentd::image
