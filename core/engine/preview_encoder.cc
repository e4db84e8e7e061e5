#include "core/engine/preview_encoder.h"

#include <algorithm>
#include <string>
#include <utility>

#include "core/base/out_of_memory.h"
#include "core/base/status_macros.h"
#include "core/image/encode.h"

namespace latentd::engine {
namespace {

// They are looked at for a moment.
constexpr image::EncodeOptions kEncoding = {.format = image::Format::kJpeg, .quality = 80};

// Of the picture, in latents.
pipeline::Size PreviewSize(const pipeline::Picture& picture) {
  const int scale = picture.executed_size().width / picture.request->latent_width;
  return {picture.size().width / scale, picture.size().height / scale};
}

}  // namespace

void PreviewEncoder::Add(const JobPicture& of, pipeline::Prediction prediction) {
  const pipeline::Picture& picture = of.picture();
  if (!picture.request->colors) return;
  CatchOutOfMemory([&] {
    Waiting added = {.of = of,
                     .total_steps = picture.total_steps(),
                     .size = PreviewSize(picture),
                     .colors = *picture.request->colors,
                     .prediction = std::move(prediction)};
    added.counted = results_->Count(added.prediction.bytes());
    return TryAdd(std::move(added));
  }).IgnoreError();
}

absl::Status PreviewEncoder::TryAdd(Waiting added) {
  if (Replaces(added)) return absl::OkStatus();
  if (worker_ == nullptr) worker_ = std::make_unique<Worker>("previews");
  // A task for each that waits: where there is memory for the task alone, it finds nothing to do.
  absl::MutexLock lock(&mutex_);
  worker_->Add([this] { EncodeNext(); });
  waiting_.push_back(std::move(added));
  return absl::OkStatus();
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
  Waiting next;
  {
    absl::MutexLock lock(&mutex_);
    if (waiting_.empty()) return;
    next = std::move(waiting_.front());
    waiting_.pop_front();
  }
  if (!is_wanted_(*next.of.job)) return;
  CatchOutOfMemory([&] { return TryEncode(next); }).IgnoreError();
}

absl::Status PreviewEncoder::TryEncode(const Waiting& next) const {
  const image::Image drawn = pipeline::DrawPreview(next.prediction, next.colors, next.size);
  ASSIGN_OR_RETURN(std::string bytes, image::Encode(drawn, kEncoding));
  Preview preview = {.image_index = next.of.index,
                     .step = next.prediction.step,
                     .total_steps = next.total_steps,
                     .size = next.size,
                     .format = kEncoding.format,
                     .bytes = std::move(bytes)};
  preview.unread = results_->Count(preview.bytes.size());
  next.of.job->Publish(std::move(preview));
  return absl::OkStatus();
}

}  // namespace latentd::engine
