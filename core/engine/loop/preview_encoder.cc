#include "core/engine/loop/preview_encoder.h"

#include <algorithm>
#include <memory>
#include <string>
#include <utility>
#include <vector>

#include "absl/strings/str_cat.h"
#include "core/base/errors/out_of_memory.h"
#include "core/base/errors/status_macros.h"
#include "core/image/encode.h"
#include "core/image/video/video_file.h"
#include "core/pipeline/picture/preview.h"

namespace latentd::engine {
namespace {

// They are looked at for a moment.
constexpr image::EncodeOptions kEncoding = {.format = image::Format::kJpeg, .quality = 80};
constexpr image::VideoFormat kVideoFormat = image::VideoFormat::kWebp;

std::optional<int> FpsOf(const pipeline::Picture& picture) {
  const std::optional<pipeline::VideoSpec>& video = picture.plan().spec.video;
  return video ? std::optional(video->fps) : std::nullopt;
}

// Size of the picture, in latents.
pipeline::Size LatentSize(const pipeline::Picture& picture) {
  const int scale = picture.executed_size().width / picture.plan().latents.width;
  return {picture.size().width / scale, picture.size().height / scale};
}

// Each frame is encoded here: no other thread has to.
absl::StatusOr<std::string> EncodeVideo(const std::vector<image::Image>& frames, int fps) {
  const image::VideoInfo info = {.width = frames.front().width,
                                 .height = frames.front().height,
                                 .frames = static_cast<int>(frames.size()),
                                 .fps = static_cast<double>(fps),
                                 .quality = kEncoding.quality};
  ASSIGN_OR_RETURN(const std::unique_ptr<image::VideoWriter> writer,
                   image::MakeVideoWriter(kVideoFormat, info));
  RETURN_IF_ERROR(writer->Add(frames));
  return writer->Finish();
}

}  // namespace

void PreviewEncoder::Add(const JobPicture& of, pipeline::Prediction prediction) {
  pipeline::Picture& picture = of.picture();
  const pipeline::Request& request = *picture.request;
  if (prediction.pixels.has_memory()) {
    prediction.terms.clear();
  } else if (request.preview != nullptr) {
    picture.prediction = std::move(prediction);
    return;
  } else if (!request.colors) {
    return;
  }
  // A picture is never worse for its previews.
  CatchOutOfMemory([&] {
    Waiting added = {.of = of,
                     .total_steps = picture.total_steps(),
                     .size = picture.size(),
                     .latents = LatentSize(picture),
                     .colors = request.colors.value_or(pipeline::LatentColors()),
                     .fps = FpsOf(picture),
                     .prediction = std::move(prediction)};
    added.counted = bytes_->Count(PictureBytes::Kind::kResult, added.prediction.bytes());
    TryAdd(std::move(added));
  }).IgnoreError();
}

void PreviewEncoder::AddFailed(const JobPicture& of, pipeline::Prediction prediction,
                               const absl::Status& failure) {
  pipeline::Request& request = *of.picture().request;
  const bool was_tiny = std::exchange(request.preview, nullptr) != nullptr;
  if (was_tiny && warn_ && !std::exchange(has_warned_, true)) {
    CatchOutOfMemory([&] {
      warn_(absl::StrCat("the tiny VAE could not draw a preview: ", failure.message(),
                         "; such requests go on with previews in colours, and no more is said of "
                         "it (--components=vae_tiny=off does without it)"));
    }).IgnoreError();
  }
  prediction.pixels = {};
  Add(of, std::move(prediction));
}

void PreviewEncoder::TryAdd(Waiting added) {
  if (Replaces(added)) return;
  // A task for each that waits: where there is memory for the task alone, it finds nothing to do.
  absl::MutexLock lock(&mutex_);
  worker_.Add([this] { EncodeNext(); });
  waiting_.push_back(std::move(added));
}

// The older one goes with `added`, outside of the lock.
bool PreviewEncoder::Replaces(Waiting& added) {
  absl::MutexLock lock(&mutex_);
  const auto same = std::find_if(waiting_.begin(), waiting_.end(), [&](const Waiting& waiting) {
    return waiting.of.job == added.of.job && waiting.of.index == added.of.index;
  });
  if (same == waiting_.end()) return false;
  std::swap(*same, added);
  return true;
}

void PreviewEncoder::EncodeNext() {
  const ThreadWatch::Activity encodes(watch_, "encoding a preview");
  Waiting next;
  {
    absl::MutexLock lock(&mutex_);
    if (waiting_.empty()) return;
    next = std::move(waiting_.front());
    waiting_.pop_front();
  }
  if (is_wanted_(*next.of.job)) Encode(next).IgnoreError();
}

absl::Status PreviewEncoder::Encode(const Waiting& next) const {
  const device::Buffer& pixels = next.prediction.pixels;
  const std::vector<image::Image> drawn =
      pixels.has_memory() ? std::vector{pipeline::ShrinkPixels(pixels, next.size)}
                          : pipeline::DrawPreview(next.prediction, next.colors, next.latents);
  const image::Image& first = drawn.front();
  Preview preview = {.image_index = next.of.index,
                     .step = next.prediction.step,
                     .total_steps = next.total_steps,
                     .size = {first.width, first.height, static_cast<int>(drawn.size())},
                     .format = kEncoding.format};
  if (next.fps) {
    preview.video_format = kVideoFormat;
    ASSIGN_OR_RETURN(preview.bytes, EncodeVideo(drawn, *next.fps));
  } else {
    ASSIGN_OR_RETURN(preview.bytes, image::Encode(first, kEncoding));
  }
  preview.unread = bytes_->Count(PictureBytes::Kind::kResult, preview.bytes.size());
  next.of.job->Publish(std::move(preview));
  return absl::OkStatus();
}

}  // namespace latentd::engine
