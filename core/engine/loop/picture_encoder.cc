#include "core/engine/loop/picture_encoder.h"

#include <algorithm>
#include <utility>

#include "absl/algorithm/container.h"
#include "absl/cleanup/cleanup.h"
#include "absl/container/inlined_vector.h"
#include "core/base/errors/out_of_memory.h"
#include "core/base/errors/status_macros.h"
#include "core/base/threads/split_work.h"
#include "core/engine/requests/picture_file.h"

namespace latentd::engine {
namespace {

constexpr char kEncodes[] = "encoding a picture";

}  // namespace

DrawnPicture::DrawnPicture(pipeline::Picture& picture)
    : pixels(std::move(picture.pixels)), overlay(picture.request->overlay) {
  if (picture.plan().spec.output_latents) latents = std::move(picture.latents);
  embeds = std::move(picture.embeds);
}

size_t DrawnPicture::bytes() const {
  size_t bytes = pixels.rgb.size() + latents.bytes();
  for (const image::Image& frame : frames) bytes += frame.rgb.size();
  for (const pipeline::NamedBuffers& row : embeds) {
    for (const auto& [name, buffer] : row) bytes += buffer.bytes();
  }
  return bytes;
}

PictureEncoder::PictureEncoder(int threads, Encode encode, Owner owner,
                               std::shared_ptr<PictureBytes> bytes, ThreadWatches& watches,
                               EngineMetrics& metrics, const Clock& clock)
    : encode_(std::move(encode)),
      owner_(std::move(owner)),
      bytes_(std::move(bytes)),
      metrics_(metrics),
      clock_(clock),
      previews_(owner_.is_wanted, bytes_, watches.Add("previews"), owner_.warn) {
  for (int i = 0; i < threads; ++i) {
    encoders_.push_back(std::make_unique<Encoder>(watches.Add("encoder")));
  }
}

// Pictures first: the thread that encodes one needs the helpers, which have to exist until then.
PictureEncoder::~PictureEncoder() {
  for (const auto& encoder : encoders_) encoder->worker.Flush();
}

void PictureEncoder::Add(std::shared_ptr<Job> job, int index, uint64_t seed, DrawnPicture drawn) {
  Add(LeastBusy(), {.job = std::move(job),
                    .index = index,
                    .seed = seed,
                    .drawn = std::make_shared<const DrawnPicture>(std::move(drawn))});
}

void PictureEncoder::AddFrames(const std::shared_ptr<Job>& job, int index, uint64_t seed,
                               std::vector<image::Image> frames, int first) {
  Added added = {.job = job, .index = index, .seed = seed, .frame = first};
  if (!job->spec.video_file) {
    for (image::Image& frame : frames) {
      added.drawn = std::make_shared<const DrawnPicture>(std::move(frame));
      Add(LeastBusy(), added);
      ++added.frame;
    }
    return;
  }
  const bool is_last = first + static_cast<int>(frames.size()) == job->plan->executed_size.frames;
  // A job that ended meanwhile, or for which there is no memory here, closes no file of its own.
  bool has_added = false;
  const absl::Cleanup close = [&] {
    if (!has_added || is_last || !owner_.is_wanted(*job)) CloseVideos(*job, index);
  };
  added.video = VideoOf(*job, index, seed);
  added.drawn = std::make_shared<const DrawnPicture>(std::move(frames));
  Encoder& encoder = added.video->encoder;
  Add(encoder, std::move(added));
  has_added = true;
}

std::shared_ptr<PictureEncoder::Video> PictureEncoder::VideoOf(const Job& job, int index,
                                                               uint64_t seed) {
  absl::MutexLock lock(&mutex_);
  const auto found = absl::c_find_if(
      videos_, [&](const OpenVideo& open) { return open.job == &job && open.index == index; });
  if (found != videos_.end()) return found->video;
  auto video = std::make_shared<Video>(Video{GrowingVideo(job, index, seed), LeastBusy()});
  videos_.push_back({&job, index, video});
  return video;
}

void PictureEncoder::CloseVideos(const Job& job, std::optional<int> index) {
  std::list<OpenVideo> closed;  // destroyed without the lock: their counts notify others
  absl::MutexLock lock(&mutex_);
  for (auto next = videos_.begin(); next != videos_.end();) {
    const auto open = next++;
    const bool is_meant = open->job == &job && open->index == index.value_or(open->index);
    if (is_meant) closed.splice(closed.end(), videos_, open);
  }
}

// Counted without the lock, as counts are destroyed: they notify others.
std::shared_ptr<const void> PictureEncoder::CountOverlay(const image::Overlay* overlay) {
  if (overlay == nullptr) return nullptr;
  {
    absl::MutexLock lock(&mutex_);
    absl::erase_if(overlays_, [](const auto& known) { return known.second.expired(); });
    const auto known = overlays_.find(overlay);
    if (known != overlays_.end()) {
      if (std::shared_ptr<const void> counted = known->second.lock()) return counted;
    }
  }
  std::shared_ptr<const void> counted =
      bytes_->Count(PictureBytes::Kind::kResult, overlay->bytes());
  absl::MutexLock lock(&mutex_);
  overlays_[overlay] = counted;
  return counted;
}

void PictureEncoder::Add(Encoder& encoder, Added added) {
  added.overlay_counted = CountOverlay(added.drawn->overlay.get());
  added.counted = bytes_->Count(PictureBytes::Kind::kUnencoded, added.drawn->bytes());
  const auto bytes = static_cast<int64_t>(added.drawn->bytes());
  encoder.bytes += bytes;
  // Should there be no memory for the token, its deleter runs at once.
  added.at_encoder =
      std::shared_ptr<Encoder>(&encoder, [bytes](Encoder* at) { at->bytes -= bytes; });
  uint64_t id = 0;
  {
    absl::MutexLock lock(&mutex_);
    id = added.id = next_id_++;
    waiting_.push_back(std::move(added));
  }
  absl::Cleanup not_added = [&] { Take(id); };
  encoder.worker.Add([this, id, &watch = encoder.watch] {
    const ThreadWatch::Activity encodes(watch, kEncodes);
    if (std::optional<Added> next = Take(id)) EncodePicture(*std::move(next));
  });
  std::move(not_added).Cancel();
}

std::optional<PictureEncoder::Added> PictureEncoder::Take(uint64_t id) {
  absl::MutexLock lock(&mutex_);
  const auto found = absl::c_find_if(waiting_, [&](const Added& added) { return added.id == id; });
  if (found == waiting_.end()) return std::nullopt;
  Added taken = std::move(*found);
  waiting_.erase(found);
  return taken;
}

void PictureEncoder::Drop(const Job& job) {
  CloseVideos(job, std::nullopt);
  std::list<Added> dropped;  // destroyed without the lock: their counts notify others
  absl::MutexLock lock(&mutex_);
  for (auto next = waiting_.begin(); next != waiting_.end();) {
    const auto added = next++;
    if (added->job.get() == &job) dropped.splice(dropped.end(), waiting_, added);
  }
}

PictureEncoder::Encoder& PictureEncoder::LeastBusy() const {
  const auto has_less = [](const auto& a, const auto& b) { return a->bytes < b->bytes; };
  return **std::min_element(encoders_.begin(), encoders_.end(), has_less);
}

void PictureEncoder::EncodePicture(Added added) {
  const std::shared_ptr<Job> job = added.job;
  if (!owner_.is_wanted(*job)) return;  // it has failed, or is about to hear so
  // A border: who waits for the picture is told.
  absl::Status encoded = CatchOutOfMemory([&] { return TryEncode(std::move(added)); });
  if (encoded.ok() || !owner_.is_wanted(*job)) return;
  owner_.fail(*job, std::move(encoded));
}

absl::StatusOr<Image> PictureEncoder::Encoded(const Added& added) const {
  const DrawnPicture& drawn = *added.drawn;
  const image::RunParts run_parts = [this](int count, absl::FunctionRef<void(int)> part) {
    RunParts(count, part);
  };
  if (added.video != nullptr) {
    return added.video->file.Add(drawn.frames, run_parts, [&] { return BeginFrame(added); });
  }
  if (drawn.latents.has_memory()) {
    return LatentsImage(*added.job, added.index, added.seed, drawn.latents);
  }
  if (!drawn.embeds.empty()) return EmbedsImage(*added.job, drawn.embeds);
  const auto encode = [&](const image::Image& pixels) {
    return encode_(*added.job, added.index, added.seed, pixels, run_parts);
  };
  if (drawn.overlay == nullptr) return encode(drawn.pixels);
  ASSIGN_OR_RETURN(const image::Image whole, drawn.overlay->Over(drawn.pixels));
  return encode(whole);
}

// The watch sees each frame begin, those too that other threads encode meanwhile: a video of many
// is no thread that hangs.
absl::Status PictureEncoder::BeginFrame(const Added& added) const {
  const ThreadWatch::Activity encodes(added.video->encoder.watch, kEncodes);
  if (owner_.is_wanted(*added.job)) return absl::OkStatus();
  return absl::CancelledError("the video is not wanted any more");
}

// By the thread that calls, too: it would help itself once it has no more to do.
void PictureEncoder::RunParts(int count, absl::FunctionRef<void(int)> part) const {
  absl::InlinedVector<Worker*, 4> helpers;
  for (const auto& encoder : encoders_) helpers.push_back(&encoder->worker);
  SplitWork(count > 1 ? absl::MakeSpan(helpers) : absl::Span<Worker*>(), count, part);
}

absl::Status PictureEncoder::TryEncode(Added added) {
  Job& job = *added.job;
  const absl::Time begin = clock_.Monotonic();
  ASSIGN_OR_RETURN(Image image, Encoded(added));
  image.frame = added.frame;
  image.encoded = {begin, clock_.Monotonic()};
  const absl::Duration duration = image.encoded.length();
  job.AddEncodeTime(duration);
  image.unread = bytes_->Count(PictureBytes::Kind::kResult, image.bytes.size());
  if (Video* video = added.video.get()) {
    video->counted = bytes_->Count(PictureBytes::Kind::kResult, video->file.held_bytes());
  }
  const int count = added.drawn->count();
  added.overlay_counted.reset();  // before the overlay that it is of
  added.drawn.reset();
  added.counted.reset();
  added.at_encoder.reset();
  metrics_.StageDone(Stage::kEncodeFile, job.last_model, job.bucket, duration);
  if (!image.part || !image.bytes.empty()) {
    metrics_.ImageDone(job.bucket, image);
    job.Publish(std::move(image));
  }
  if ((job.unfinished -= count) == 0) owner_.complete(job);
  return absl::OkStatus();
}

}  // namespace latentd::engine
