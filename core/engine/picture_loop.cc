#include "core/engine/picture_loop.h"

#include <algorithm>
#include <utility>

#include "core/base/error_details.h"
#include "core/base/out_of_memory.h"
#include "core/base/status_macros.h"
#include "core/base/threads.h"
#include "core/engine/reporting.h"

namespace latentd::engine {
namespace {

// How long a client should wait while the server stops: by then a balancer sends it elsewhere.
constexpr absl::Duration kRetryWhileDraining = absl::Seconds(1);

// `status` with what tells clients to ask another server.
absl::Status Draining(absl::Status status) {
  return WithRetryDelay(WithReason(std::move(status), "DRAINING"), kRetryWhileDraining);
}

batching::Need NeedOf(const pipeline::Picture& picture) {
  static constexpr batching::UnitKind kKinds[] = {
      batching::UnitKind::kText, batching::UnitKind::kEncode, batching::UnitKind::kStep,
      batching::UnitKind::kDecode};
  return {kKinds[static_cast<int>(picture.next)], picture.lane(), picture.rows()};
}

batching::Need FirstNeedOf(const Job& job) {
  if (job.pictures.empty()) return {.kind = batching::UnitKind::kPrepare};
  return NeedOf(*job.pictures.front());
}

// A request counts as one picture, however many it has: they are drawn one after the other, and
// share what the text encoders made.
int64_t StateBytesOf(const Job& job) {
  const pipeline::PictureSpec& picture = job.spec.picture;
  return job.pipeline.StateBytes(*picture.executed_size, pipeline::UsesGuidance(picture) ? 2 : 1);
}

}  // namespace

PictureLoop::PictureLoop(int queue_capacity, EngineMetrics& metrics, const Clock& clock)
    : metrics_(metrics),
      clock_(clock),
      queue_({.pictures = queue_capacity}, clock),
      thread_([this] { RunLoop(); }) {}

PictureLoop::~PictureLoop() {
  Drain(clock_.Monotonic());
  {
    absl::MutexLock lock(&mutex_);
    stop_ = true;
  }
  thread_.join();
}

absl::Status PictureLoop::Admit(const std::shared_ptr<Job>& job, size_t image_bytes) {
  // Held until Queued is out: the loop may take the job at once.
  absl::MutexLock publishing(&job->publishing());
  int position = 0;
  RETURN_IF_ERROR(Enqueue(job, image_bytes, position));
  metrics_.Accepted(job->bucket, job->picture_count());
  job->PublishLocked(Queued{job->spec.request_id, position});
  return absl::OkStatus();
}

absl::Status PictureLoop::Enqueue(const std::shared_ptr<Job>& job, size_t image_bytes,
                                  int& position) {
  absl::MutexLock lock(&mutex_);
  if (draining_) return Draining(absl::UnavailableError("the server is shutting down"));
  for (int i = 0; i < job->picture_count(); ++i) job->ids.push_back(next_id_++);
  position = queue_.size();
  RETURN_IF_ERROR(queue_.Admit(job->ids, FirstNeedOf(*job), image_bytes));
  for (size_t i = 0; i < job->ids.size(); ++i) places_[job->ids[i]] = {job, static_cast<int>(i)};
  jobs_[job->handle] = job;
  return absl::OkStatus();
}

void PictureLoop::Begin(Job& job, std::vector<std::unique_ptr<pipeline::Picture>> pictures) {
  absl::MutexLock lock(&mutex_);
  if (!jobs_.contains(job.handle)) return;
  job.pictures = std::move(pictures);
  for (size_t i = 0; i < job.ids.size(); ++i) queue_.Update(job.ids[i], NeedOf(*job.pictures[i]));
}

bool PictureLoop::IsWanted(uint64_t handle) const {
  absl::MutexLock lock(&mutex_);
  return jobs_.contains(handle) &&
         std::none_of(cancelled_.begin(), cancelled_.end(),
                      [handle](const Cancellation& asked) { return asked.handle == handle; });
}

void PictureLoop::Cancel(uint64_t handle) {
  absl::MutexLock lock(&mutex_);
  cancelled_.push_back({handle, absl::CancelledError("cancelled by the client")});
}

void PictureLoop::Drain(absl::Time deadline) {
  absl::MutexLock lock(&mutex_);
  draining_ = true;
  const auto idle = [this]() ABSL_EXCLUSIVE_LOCKS_REQUIRED(mutex_) { return jobs_.empty(); };
  if (mutex_.AwaitWithTimeout(absl::Condition(&idle), deadline - clock_.Monotonic())) return;
  for (const auto& [handle, job] : jobs_) {
    cancelled_.push_back(
        {handle, Draining(absl::CancelledError("the server stopped before it was done"))});
  }
  mutex_.Await(absl::Condition(&idle));
}

bool PictureLoop::HasWork() const { return stop_ || !cancelled_.empty() || queue_.CanRun(); }

void PictureLoop::RunLoop() {
  NameThisThread("loop");
  while (true) {
    std::vector<Cancelled> cancelled;
    std::optional<batching::Unit> unit;
    Place place;
    {
      absl::MutexLock lock(&mutex_);
      mutex_.Await(absl::Condition(this, &PictureLoop::HasWork));
      cancelled = TakeCancelled();
      if (cancelled.empty() && stop_) return;
      if (cancelled.empty()) unit = queue_.Next();
      if (unit) place = places_.at(unit->pictures.front());
    }
    for (Cancelled& end : cancelled) Fail(*end.job, std::move(end.why));
    if (unit) RunUnit(place);
  }
}

std::vector<PictureLoop::Cancelled> PictureLoop::TakeCancelled() {
  std::vector<Cancelled> ends;
  for (Cancellation& asked : std::exchange(cancelled_, {})) {
    const auto found = jobs_.find(asked.handle);
    if (found != jobs_.end()) ends.push_back({found->second, std::move(asked.why)});
  }
  return ends;
}

void PictureLoop::RunUnit(const Place& place) {
  Job& job = *place.job;
  pipeline::Picture& picture = *job.pictures[place.index];
  const absl::Time begin = clock_.Monotonic();
  if (!std::exchange(job.started, true)) Start(job, begin);
  const Stage stage = StageOf(picture);
  const int steps_before = picture.steps_done;
  absl::Status status = CatchOutOfMemory([&] { return job.pipeline.Run(picture); });
  const absl::Duration duration = clock_.Monotonic() - begin;
  AddTime(job.timings, stage, duration);
  if (!status.ok()) {
    metrics_.UnitFailed(stage, status);
    return Fail(job, std::move(status));
  }
  Measure(place, stage, steps_before, duration);
  job.Publish(Progress{place.index, stage, picture.steps_done, picture.total_steps()});
  Advance(place);
}

void PictureLoop::Start(Job& job, absl::Time now) {
  job.timings.queue = now - job.submitted;
  job.dropped_tokens = static_cast<int>(job.pipeline.DroppedTokens(job.spec.picture));
  state_bytes_ += StateBytesOf(job);
  metrics_.Began(job.bucket, job.timings.queue, clock_.Wall());
  job.Publish(Started{*job.spec.picture.executed_size});
}

void PictureLoop::Measure(const Place& place, Stage stage, int steps_before,
                          absl::Duration duration) {
  Job& job = *place.job;
  const pipeline::Picture& picture = *job.pictures[place.index];
  absl::Duration& stage_time = job.stage_times[place.index];
  stage_time += duration;
  if (stage == Stage::kBase || stage == Stage::kRefiner) {
    metrics_.StepsDone(stage, job.bucket, picture.steps_done - steps_before, duration);
  }
  if (picture.next != pipeline::UnitKind::kDone && StageOf(picture) == stage) return;
  if (stage == Stage::kVaeDecode && picture.decode_redone) metrics_.DecodeRedone();
  metrics_.StageDone(stage, job.bucket, std::exchange(stage_time, absl::ZeroDuration()));
}

void PictureLoop::Advance(const Place& place) {
  pipeline::Picture& picture = *place.job->pictures[place.index];
  const batching::PictureId id = place.job->ids[place.index];
  if (picture.next == pipeline::UnitKind::kDone) return HandOver(place);
  absl::MutexLock lock(&mutex_);
  queue_.Update(id, NeedOf(picture));
}

void PictureLoop::HandOver(const Place& place) {
  const std::shared_ptr<Job> job = place.job;
  const int index = place.index;
  auto pixels = std::make_shared<const image::Image>(std::move(job->pictures[index]->pixels));
  const uint64_t seed = job->pictures[index]->seed;
  job->pictures[index].reset();
  {
    absl::MutexLock lock(&mutex_);
    Leave(*job, job->ids[index]);
  }
  encoder_.Add([this, job, index, seed, pixels] { Encode(*job, index, seed, *pixels); });
}

void PictureLoop::Encode(Job& job, int index, uint64_t seed, const image::Image& pixels) {
  const absl::Time begin = clock_.Monotonic();
  absl::StatusOr<Image> image =
      CatchOutOfMemory([&] { return EncodeImage(job, index, seed, pixels); });
  const absl::Duration duration = clock_.Monotonic() - begin;
  job.timings.image_encode += duration;
  if (!image.ok()) return Fail(job, image.status());
  metrics_.StageDone(Stage::kImageEncode, job.bucket, duration);
  metrics_.ImageDone(job.bucket, *image);
  job.Publish(*std::move(image));
  if (--job.unfinished > 0) return;
  job.timings.total = clock_.Monotonic() - job.submitted;
  Forget(job, absl::OkStatus());
  job.Publish(CompletionOf(job));
}

void PictureLoop::Fail(Job& job, absl::Status status) {
  Forget(job, status);
  job.Publish(Failed{std::move(status)});
}

void PictureLoop::Leave(const Job& job, batching::PictureId id) {
  if (places_.erase(id) == 0) return;
  queue_.Remove(id);
  metrics_.PictureLeft(job.bucket);
}

void PictureLoop::Forget(const Job& job, const absl::Status& end) {
  absl::MutexLock lock(&mutex_);
  for (batching::PictureId id : job.ids) Leave(job, id);
  if (jobs_.erase(job.handle) == 0) return;
  if (job.started) state_bytes_ -= StateBytesOf(job);
  metrics_.Ended(end, job.started);
}

}  // namespace latentd::engine
