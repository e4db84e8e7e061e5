#include "core/engine/picture_loop.h"

#include <algorithm>
#include <utility>

#include "core/base/error_details.h"
#include "core/base/out_of_memory.h"
#include "core/base/status_macros.h"
#include "core/base/threads.h"
#include "core/engine/serving.h"

namespace latentd::engine {
namespace {

// One that the device is at, and the next.
constexpr size_t kMostInFlight = 2;

batching::Need NeedOf(const pipeline::Picture& picture) {
  return {picture.next, picture.lane(), picture.rows()};
}

batching::Need FirstNeedOf(const Job& job) {
  if (job.pictures.empty()) return {.kind = batching::UnitKind::kWait};
  return NeedOf(*job.pictures.front());
}

// A request counts as one picture, however many it has: they are drawn one after the other, and
// share what the text encoders made.
int64_t StateBytesOf(const Job& job) {
  const pipeline::PictureSpec& picture = job.spec.picture;
  return job.pipeline.StateBytes(*picture.executed_size, pipeline::RowsOf(picture));
}

}  // namespace

PictureLoop::PictureLoop(Options options, device::Device& device, EngineMetrics& metrics,
                         const Clock& clock)
    : options_(std::move(options)),
      device_(device),
      metrics_(metrics),
      clock_(clock),
      watchdog_(clock),
      results_(std::make_shared<ResultBytes>([this] { absl::MutexLock wake_the_loop(&mutex_); })),
      queue_({.pictures = options_.queue_capacity}, clock),
      thread_(StartThread("loop", [this] { RunLoop(); })) {}

void PictureLoop::Stop() {
  absl::MutexLock lock(&mutex_);
  stop_ = true;
}

PictureLoop::~PictureLoop() {
  Drain(clock_.Monotonic());
  Stop();
  thread_.join();
  results_->Disconnect();
}

absl::Status PictureLoop::Admit(const std::shared_ptr<Job>& job, size_t image_bytes) {
  // Held until Queued is out: the loop may take the job at once.
  absl::MutexLock publishing(&job->publishing());
  Queued queued;
  RETURN_IF_ERROR(CatchOutOfMemory([&] {
    queued.request_id = job->spec.request_id;
    return AddMember(job, image_bytes, queued.position);
  }));
  const absl::Status counted = CatchOutOfMemory([&] {
    metrics_.Accepted(job->bucket, job->picture_count());
    return absl::OkStatus();
  });
  if (!counted.ok()) Abandon(job->handle);
  job->PublishLocked(std::move(queued));
  return absl::OkStatus();
}

absl::Status PictureLoop::AddMember(const std::shared_ptr<Job>& job, size_t image_bytes,
                                    int& position) {
  absl::MutexLock lock(&mutex_);
  if (draining_) return DrainingError();
  const int count = job->picture_count();
  for (int i = 0; i < count; ++i) job->ids.push_back(next_id_++);
  places_.reserve(places_.size() + count);
  jobs_.reserve(jobs_.size() + 1);
  position = queue_.size();
  RETURN_IF_ERROR(queue_.Admit(job->ids, FirstNeedOf(*job), image_bytes));
  // From here on nothing asks for memory: the job is a member in all of it, or in nothing.
  for (int i = 0; i < count; ++i) places_[job->ids[i]] = {job, i};
  jobs_[job->handle] = {job};
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
  const auto found = jobs_.find(handle);
  return found != jobs_.end() && found->second.cancelled == Cause::kNone;
}

bool PictureLoop::IsMember(const Job& job) const {
  absl::MutexLock lock(&mutex_);
  return jobs_.contains(job.handle);
}

void PictureLoop::Cancel(uint64_t handle) { CancelFor(Cause::kClient, handle); }

void PictureLoop::Abandon(uint64_t handle) { CancelFor(Cause::kOutOfMemory, handle); }

void PictureLoop::CancelFor(Cause cause, uint64_t handle) {
  absl::MutexLock lock(&mutex_);
  const auto found = jobs_.find(handle);
  if (found != jobs_.end()) CancelFor(cause, found->second);
}

void PictureLoop::CancelFor(Cause cause, Member& member) {
  if (member.cancelled != Cause::kNone) return;
  member.cancelled = cause;
  ++cancellations_;
}

absl::Status PictureLoop::StatusOf(Cause cause) {
  switch (cause) {
    case Cause::kNone:
    case Cause::kClient:
      break;
    case Cause::kDrain:
      return DrainingError(absl::StatusCode::kCancelled);
    case Cause::kOutOfMemory:
      return WithReason(absl::ResourceExhaustedError("out of memory"), "OUT_OF_MEMORY");
  }
  return absl::CancelledError("cancelled by the client");
}

void PictureLoop::Drain(absl::Time deadline) {
  absl::MutexLock lock(&mutex_);
  draining_ = true;
  const auto idle = [this]() ABSL_EXCLUSIVE_LOCKS_REQUIRED(mutex_) { return jobs_.empty(); };
  const absl::Duration left = deadline - clock_.Monotonic();
  // Without time the lock is kept: no unit begins before all are cancelled.
  if (left > absl::ZeroDuration() && mutex_.AwaitWithTimeout(absl::Condition(&idle), left)) return;
  for (auto& [handle, member] : jobs_) CancelFor(Cause::kDrain, member);
  mutex_.Await(absl::Condition(&idle));
}

LoopStatus PictureLoop::Check() const {
  LoopStatus status = {.overdue = watchdog_.Overdue()};
  absl::MutexLock lock(&mutex_);
  status.waits_for_readers = with_device_ == 0 && !MayBegin() &&
                             !queue_.CanRun(/*may_begin=*/false) &&
                             queue_.CanRun(/*may_begin=*/true);
  return status;
}

bool PictureLoop::HasWork() const {
  return stop_ || cancellations_ > 0 || queue_.CanRun(MayBegin());
}

void PictureLoop::RunLoop() {
  in_flight_.reserve(kMostInFlight);
  while (true) {
    if (!in_flight_.empty() && in_flight_.front().unit.done->Reached()) {
      CompleteOldest();
      continue;
    }
    const Work work = NextWork();
    if (work.cancelled.job != nullptr) {
      Fail(*work.cancelled.job, StatusOf(work.cancelled.cancelled));
    } else if (work.unit) {
      Enqueue(*work.unit);
    } else if (!in_flight_.empty()) {
      CompleteOldest();
    } else if (work.stop) {
      return;
    }
  }
}

// Cancellations first.
PictureLoop::Work PictureLoop::NextWork() {
  absl::MutexLock lock(&mutex_);
  if (in_flight_.empty()) mutex_.Await(absl::Condition(this, &PictureLoop::HasWork));
  if (cancellations_ > 0) {
    for (const auto& [handle, member] : jobs_) {
      if (member.cancelled != Cause::kNone) return {.cancelled = member, .unit = std::nullopt};
    }
  }
  if (in_flight_.size() == kMostInFlight) return {};
  const std::optional<batching::Unit> unit = queue_.Next(MayBegin());
  if (!unit) return {.cancelled = {}, .unit = std::nullopt, .stop = stop_};
  return {.cancelled = {}, .unit = places_.find(unit->pictures.front())->second};
}

void PictureLoop::Enqueue(const Place& place) {
  absl::Status enqueued = CatchOutOfMemory([&] { return TryEnqueue(place); });
  if (!enqueued.ok()) Fail(*place.job, std::move(enqueued));
}

absl::Status PictureLoop::TryEnqueue(const Place& place) {
  Job& job = *place.job;
  pipeline::Picture& picture = *job.pictures[place.index];
  if (stream_ == nullptr) {
    ASSIGN_OR_RETURN(stream_, device_.NewStream(clock_));
  }
  const absl::Time begin = clock_.Monotonic();
  if (!job.started) Start(job, begin);
  const Stage stage = StageOf(picture);
  UnitWatchdog::Unit watched = {job.spec.request_id, place.index, stage, picture.executed_size()};
  if (in_flight_.empty()) watchdog_.Begin(std::move(watched));
  absl::StatusOr<pipeline::PendingUnit> unit = pipeline::EnqueueUnit(picture, *stream_);
  if (!unit.ok()) {
    if (in_flight_.empty()) watchdog_.End();
    metrics_.UnitFailed(stage, unit.status());
    return unit.status();
  }
  // Asks for no memory: the device uses what the unit holds.
  ++with_device_;
  in_flight_.push_back({place, stage, *std::move(unit), begin, std::move(watched)});
  Advance(place);
  return absl::OkStatus();
}

void PictureLoop::CompleteOldest() {
  UnitInFlight& done = in_flight_.front();
  const std::shared_ptr<Job> job = done.place.job;
  absl::Status completed = CatchOutOfMemory([&] { return TryComplete(done); });
  if (!completed.ok()) Fail(*job, std::move(completed));
  in_flight_.erase(in_flight_.begin());
  --with_device_;
  watchdog_.End();
  if (!in_flight_.empty()) watchdog_.Begin(std::move(in_flight_.front().watched));
}

absl::Status PictureLoop::TryComplete(UnitInFlight& done) {
  Job& job = *done.place.job;
  pipeline::Picture& picture = *job.pictures[done.place.index];
  const absl::Status status = pipeline::CompleteUnit(picture, done.unit);
  const absl::Duration duration = TimeOf(done);
  if (!IsMember(job)) return absl::OkStatus();
  job.AddTime(done.stage, duration);
  if (!status.ok()) {
    metrics_.UnitFailed(done.stage, status);
    return status;
  }
  Measure(done, duration);
  job.Publish(Progress{done.place.index, done.stage, done.unit.steps_done, picture.total_steps()});
  if (picture.next == batching::UnitKind::kDone) {
    HandOver(done.place);
  } else if (done.unit.kind == batching::UnitKind::kDecode) {
    Advance(done.place);
  }
  return absl::OkStatus();
}

// From when it was enqueued, or the unit before was done. REQUIRES: it is done.
absl::Duration PictureLoop::TimeOf(const UnitInFlight& done) {
  const absl::Time begin = std::max(done.enqueued, last_done_);
  last_done_ = done.unit.done->time();
  return std::max(last_done_ - begin, absl::ZeroDuration());  // the device has a clock of its own
}

void PictureLoop::Start(Job& job, absl::Time now) {
  job.timings.queue = now - job.submitted;
  job.dropped_tokens = static_cast<int>(job.pipeline.DroppedTokens(job.spec.picture));
  state_bytes_ += StateBytesOf(job);
  job.started = true;  // its end takes that back
  metrics_.Began(job.bucket, job.timings.queue, clock_.Wall());
  job.Publish(Started{*job.spec.picture.executed_size});
}

void PictureLoop::Measure(const UnitInFlight& done, absl::Duration duration) {
  Job& job = *done.place.job;
  absl::Duration& stage_time = job.stage_times[done.place.index];
  stage_time += duration;
  if (done.unit.kind == batching::UnitKind::kStep) {
    metrics_.StepsDone(done.stage, job.bucket, done.unit.steps, duration);
  }
  if (!done.unit.ends_stage) return;
  const bool redone = job.pictures[done.place.index]->decode_redone;
  if (done.stage == Stage::kVaeDecode && redone) metrics_.DecodeRedone();
  metrics_.StageDone(done.stage, job.bucket, std::exchange(stage_time, absl::ZeroDuration()));
}

void PictureLoop::Advance(const Place& place) {
  absl::MutexLock lock(&mutex_);
  queue_.Update(place.job->ids[place.index], NeedOf(*place.job->pictures[place.index]));
}

void PictureLoop::HandOver(const Place& place) {
  const std::shared_ptr<Job> job = place.job;
  const int index = place.index;
  Pixels pixels = {.job = job, .index = index, .seed = job->pictures[index]->seed};
  pixels.image = std::make_shared<const image::Image>(std::move(job->pictures[index]->pixels));
  pixels.counted = results_->Count(pixels.image->rgb.size());
  job->pictures[index].reset();
  {
    absl::MutexLock lock(&mutex_);
    Leave(*job, job->ids[index]);
  }
  encoder_.Add([this, pixels = std::move(pixels)]() mutable { EncodePicture(std::move(pixels)); });
}

void PictureLoop::EncodePicture(Pixels pixels) {
  const std::shared_ptr<Job> job = pixels.job;
  if (!IsWanted(job->handle)) return;  // it has failed, or the loop is about to say so
  absl::Status encoded = CatchOutOfMemory([&] { return TryEncode(std::move(pixels)); });
  if (!encoded.ok()) Fail(*job, std::move(encoded));
}

absl::Status PictureLoop::TryEncode(Pixels pixels) {
  Job& job = *pixels.job;
  const absl::Time begin = clock_.Monotonic();
  ASSIGN_OR_RETURN(Image image, options_.encode(job, pixels.index, pixels.seed, *pixels.image));
  const absl::Duration duration = clock_.Monotonic() - begin;
  job.timings.image_encode += duration;
  image.unread = results_->Count(image.bytes.size());
  pixels.image.reset();
  pixels.counted.reset();
  metrics_.StageDone(Stage::kImageEncode, job.bucket, duration);
  metrics_.ImageDone(job.bucket, image);
  job.Publish(std::move(image));
  if (--job.unfinished > 0) return absl::OkStatus();
  job.timings.total = clock_.Monotonic() - job.submitted;
  Completed completed = job.Completion();
  if (Forget(job, absl::OkStatus())) job.Publish(std::move(completed));
  return absl::OkStatus();
}

void PictureLoop::Fail(Job& job, absl::Status status) {
  if (Forget(job, status)) job.Publish(Failed{std::move(status)});
}

void PictureLoop::Reject(Job& job, absl::Status status) {
  if (!Forget(job, status)) return;
  CatchOutOfMemory([&] {
    metrics_.RejectedLater(status);
    return absl::OkStatus();
  }).IgnoreError();
  job.Publish(Failed{std::move(status)});
}

void PictureLoop::Leave(const Job& job, batching::PictureId id) {
  if (places_.erase(id) == 0) return;
  queue_.Remove(id);
  metrics_.PictureLeft(job.bucket);
}

bool PictureLoop::Forget(const Job& job, const absl::Status& end) {
  absl::MutexLock lock(&mutex_);
  for (batching::PictureId id : job.ids) Leave(job, id);
  const auto member = jobs_.find(job.handle);
  if (member == jobs_.end()) return false;
  if (member->second.cancelled != Cause::kNone) --cancellations_;
  jobs_.erase(member);
  if (job.started) state_bytes_ -= StateBytesOf(job);
  metrics_.Ended(end, job.started);
  return true;
}

}  // namespace latentd::engine
