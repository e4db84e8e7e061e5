#include "core/engine/picture_encoder.h"

#include <utility>

#include "core/base/out_of_memory.h"
#include "core/base/status_macros.h"

namespace latentd::engine {

PictureEncoder::PictureEncoder(int threads, Encode encode, Owner owner,
                               std::shared_ptr<ResultBytes> results, EngineMetrics& metrics,
                               const Clock& clock)
    : encode_(std::move(encode)),
      owner_(std::move(owner)),
      results_(std::move(results)),
      metrics_(metrics),
      clock_(clock),
      previews_(owner_.is_wanted, results_) {
  for (int i = 0; i < threads; ++i) workers_.push_back(std::make_unique<Worker>("encoder"));
}

void PictureEncoder::Add(std::shared_ptr<Job> job, int index, uint64_t seed, image::Image pixels) {
  Pixels added = {.job = std::move(job), .index = index, .seed = seed};
  added.image = std::make_shared<const image::Image>(std::move(pixels));
  added.counted = results_->Count(added.image->rgb.size());
  Worker& worker = *workers_[added_++ % workers_.size()];
  worker.Add([this, added = std::move(added)]() mutable { EncodePicture(std::move(added)); });
}

void PictureEncoder::EncodePicture(Pixels pixels) {
  const std::shared_ptr<Job> job = pixels.job;
  if (!owner_.is_wanted(*job)) return;  // it has failed, or is about to hear so
  absl::Status encoded = CatchOutOfMemory([&] { return TryEncode(std::move(pixels)); });
  if (!encoded.ok()) owner_.fail(*job, std::move(encoded));
}

absl::Status PictureEncoder::TryEncode(Pixels pixels) {
  Job& job = *pixels.job;
  const absl::Time begin = clock_.Monotonic();
  ASSIGN_OR_RETURN(Image image, encode_(job, pixels.index, pixels.seed, *pixels.image));
  const absl::Duration duration = clock_.Monotonic() - begin;
  job.AddEncodeTime(duration);
  image.unread = results_->Count(image.bytes.size());
  pixels.image.reset();
  pixels.counted.reset();
  metrics_.StageDone(Stage::kImageEncode, job.bucket, duration);
  metrics_.ImageDone(job.bucket, image);
  job.Publish(std::move(image));
  if (--job.unfinished == 0) owner_.complete(job);
  return absl::OkStatus();
}

}  // namespace latentd::engine
