#include "core/engine/picture_loop.h"

#include <utility>
#include <vector>

#include "core/base/error_details.h"
#include "core/base/out_of_memory.h"
#include "core/base/status_macros.h"
#include "core/base/threads.h"
#include "core/device/device_fault.h"
#include "core/engine/arrival.h"
#include "core/engine/serving.h"

namespace latentd::engine {
PictureLoop::PictureLoop(Options options, device::Device& device, EngineMetrics& metrics,
                         const Clock& clock)
    : options_(std::move(options)),
      metrics_(metrics),
      clock_(clock),
      watches_(clock),
      loop_watch_(watches_.Add("loop")),
      ending_watch_(watches_.Add("end")),
      bytes_(std::make_shared<PictureBytes>(options_.picture_bytes,
                                            [this] { absl::MutexLock wake_the_loop(&mutex_); })),
      queue_(LimitsOf(options_.queue, *bytes_), clock),
      units_(options_.units, device, loop_watch_, clock),
      encoder_(options_.encoders, options_.encode,
               {.is_wanted = [this](const Job& job) { return IsWanted(job.handle); },
                .fail = [this](Job& job, absl::Status status) { Fail(job, std::move(status)); },
                .complete = [this](Job& job) { Complete(job); },
                .warn = options_.units.warn},
               bytes_, watches_, metrics, clock),
      ending_("end"),
      thread_(StartThread("loop", [this] { RunLoop(); })) {}

PictureLoop::~PictureLoop() {
  Drain(clock_.Monotonic());
  Stop();
  thread_.join();
  ending_.Stop();
  bytes_->Disconnect();
}

absl::Status PictureLoop::Admit(const std::shared_ptr<Job>& job, size_t input_bytes) {
  // Held until Queued is out: the loop may take the job at once.
  absl::MutexLock publishing(&job->publishing());
  Queued queued;
  RETURN_IF_ERROR(CatchOutOfMemory([&] { return AddMember(job, input_bytes, queued); }));
  const absl::Status counted = CatchOutOfMemory([&] {
    metrics_.PicturesCame(job->bucket, job->picture_count());
    return absl::OkStatus();
  });
  if (!counted.ok()) Abandon(job->handle);
  job->PublishLocked(std::move(queued));
  return absl::OkStatus();
}

absl::Status PictureLoop::AddMember(const std::shared_ptr<Job>& job, size_t input_bytes,
                                    Queued& queued) {
  absl::MutexLock lock(&mutex_);
  if (device_failed_) return DeviceFaultError();
  if (draining_) return DrainingError();
  const int count = job->picture_count();
  for (int i = 0; i < count; ++i) job->ids.push_back(next_id_++);
  pictures_.reserve(pictures_.size() + count);
  jobs_.reserve(jobs_.size() + 1);
  queued = {.request_id = job->spec.request_id};
  ASSIGN_OR_RETURN(const batching::Prospect prospect, queue_.Admit(ArrivalOf(*job, input_bytes)));
  UpdateNeeds(*job);
  // From here on nothing asks for memory: the job is a member in all of it, or in nothing.
  for (int i = 0; i < count; ++i) pictures_[job->ids[i]] = {job, i};
  jobs_[job->handle] = {.job = job, .told = prospect};
  metrics_.requests().Accepted(job->spec.priority);
  SetProspect(prospect, queued);
  job->predicted = queued.total;
  return absl::OkStatus();
}

void PictureLoop::Begin(Job& job, std::vector<std::unique_ptr<pipeline::Picture>> pictures) {
  absl::MutexLock lock(&mutex_);
  if (!jobs_.contains(job.handle)) return;
  job.pictures = std::move(pictures);
  UpdateNeeds(job);
}

void PictureLoop::UpdateNeeds(const Job& job) {
  for (size_t i = 0; i < job.pictures.size(); ++i) {
    queue_.Update(job.ids[i], NeedOf(*job.pictures[i]));
  }
}

void PictureLoop::CancelFor(CancelCause cause, uint64_t handle) {
  absl::MutexLock lock(&mutex_);
  const auto found = jobs_.find(handle);
  if (found != jobs_.end()) CancelFor(cause, found->second);
}

void PictureLoop::CancelFor(CancelCause cause, Member& member) {
  if (member.cancelled != CancelCause::kNone) return;
  const bool is_late = member.job->spec.deadline <= clock_.Monotonic() + kDeadlineSlack;
  member.cancelled = cause == CancelCause::kClient && is_late ? CancelCause::kDeadline : cause;
  ++cancellations_;
  if (!member.begun) EndEarly(member);
}

// The loop may be at a unit for long, and who cancels may hold what the sink waits for.
void PictureLoop::EndEarly(const Member& member) {
  CatchOutOfMemory([&] {
    ending_.Add([this, job = member.job, cause = member.cancelled] {
      const ThreadWatch::Activity ends(ending_watch_, "ending a request");
      Fail(*job, StatusOf(cause));
    });
    return absl::OkStatus();
  }).IgnoreError();  // the loop ends it
}

void PictureLoop::Drain(absl::Time deadline) {
  absl::MutexLock lock(&mutex_);
  draining_ = true;
  const auto idle = [this]() ABSL_EXCLUSIVE_LOCKS_REQUIRED(mutex_) { return jobs_.empty(); };
  const absl::Duration left = deadline - clock_.Monotonic();
  // Without time the lock is kept: no unit begins before all are cancelled.
  if (left > absl::ZeroDuration() && mutex_.AwaitWithTimeout(absl::Condition(&idle), left)) return;
  for (auto& [handle, member] : jobs_) CancelFor(CancelCause::kDrain, member);
  mutex_.Await(absl::Condition(&idle));
}

void PictureLoop::EndForFault() {
  absl::MutexLock lock(&mutex_);
  device_failed_ = true;
  for (auto& [handle, member] : jobs_) CancelFor(CancelCause::kDeviceFault, member);
}

bool PictureLoop::WaitsForReaders() const {
  absl::MutexLock lock(&mutex_);
  return units_.is_device_idle() && !bytes_->HasRoomForResults() &&
         !queue_.CanRun(/*may_begin=*/false) && queue_.CanRun(/*may_begin=*/true);
}

void PictureLoop::RunLoop() {
  while (true) {
    const ThreadWatch::Activity at(loop_watch_, "looking for work");
    if (!units_.empty() && units_.IsOldestDone()) {
      CompleteOldest();
      continue;
    }
    units_.LeaveLanes([this](const Job& job) { return IsMember(job); });
    TellWaiting();
    Work work = NextWork();
    if (work.cancelled.job != nullptr) {
      const std::shared_ptr<Job>& cancelled = work.cancelled.job;
      units_.LeaveLanes([&](const Job& job) { return &job != cancelled.get(); });
      Fail(*cancelled, StatusOf(work.cancelled.cancelled));
    } else if (work.unit) {
      Enqueue(std::move(work));
    } else if (!units_.empty()) {
      CompleteOldest();
    } else if (work.stop) {
      return;
    }
  }
}

// Cancellations first.
PictureLoop::Work PictureLoop::NextWork() {
  absl::MutexLock lock(&mutex_);
  if (units_.empty()) {
    const auto is_news = [this, seen = queue_.changes()]() ABSL_EXCLUSIVE_LOCKS_REQUIRED(mutex_) {
      return HasWork() || queue_.changes() != seen;
    };
    const ThreadWatch::Activity waits(loop_watch_, ThreadWatch::kIdle);
    mutex_.AwaitWithTimeout(absl::Condition(&is_news), queue_.NextDeadline() - clock_.Monotonic());
  }
  CancelLate();
  if (cancellations_ > 0) {
    for (const auto& [handle, member] : jobs_) {
      if (member.cancelled != CancelCause::kNone) return {.cancelled = member};
    }
  }
  if (units_.full()) return {};
  using NextUnit = absl::StatusOr<std::optional<batching::Unit>>;
  NextUnit unit = CatchOutOfMemory([&]() -> NextUnit {
    mutex_.AssertHeld();
    return queue_.Next(MayBegin());
  });
  if (!unit.ok()) return {};  // there may be memory the next time
  Work work = {.unit = *std::move(unit)};
  work.stop = stop_ && !work.unit;
  if (!work.unit) return work;
  for (batching::PictureId id : work.unit->pictures) {
    work.pictures.push_back(pictures_.find(id)->second);
    jobs_.find(work.pictures.back().job->handle)->second.begun = true;
  }
  return work;
}

// The client's own cancellation may be late, or never come.
void PictureLoop::CancelLate() {
  const absl::Time now = clock_.Monotonic();
  for (auto& [handle, member] : jobs_) {
    if (member.job->spec.deadline <= now) CancelFor(CancelCause::kDeadline, member);
  }
}

// Of their places and times, those for whom they have changed.
void PictureLoop::TellWaiting() {
  std::vector<std::pair<std::shared_ptr<Job>, Queued>> told;
  CatchOutOfMemory([&] {
    absl::MutexLock lock(&mutex_);
    if (std::exchange(changes_told_, queue_.changes()) == queue_.changes()) return absl::OkStatus();
    for (const auto& [picture, prospect] : queue_.Waiting()) {
      const std::shared_ptr<Job>& job = pictures_.find(picture)->second.job;
      batching::Prospect& last = jobs_.find(job->handle)->second.told;
      if (!batching::IsNews(last, prospect)) continue;
      last = prospect;
      SetProspect(prospect, told.emplace_back(job, Queued{job->spec.request_id}).second);
    }
    return absl::OkStatus();
  }).IgnoreError();
  for (auto& [job, queued] : told) job->Publish(std::move(queued));
}

void PictureLoop::Enqueue(Work work) {
  const ThreadWatch::Activity at(loop_watch_, "beginning a unit");
  const JobPicture& first = work.pictures.front();
  const batching::UnitKind kind = work.unit->kind;
  const Stage stage = StageOf(kind, first.picture());
  const absl::Status enqueued = CatchOutOfMemory([&] { return TryEnqueue(work); });
  if (enqueued.ok()) return AdvanceAll();
  metrics_.UnitFailed(stage, enqueued);
  if (IsLostPreview(kind, enqueued)) {
    return LosePreview(first, std::exchange(first.picture().prediction, {}), enqueued);
  }
  for (const JobPicture& picture : work.pictures) FailForUnit(*picture.job, enqueued);
}

absl::Status PictureLoop::TryEnqueue(Work& work) {
  for (const JobPicture& picture : work.pictures) {
    if (!picture.job->started) Start(*picture.job, clock_.Monotonic());
  }
  return units_.Enqueue(*work.unit, work.pictures);
}

void PictureLoop::AdvanceAll() {
  const UnitInFlight& enqueued = units_.newest();
  for (size_t i = 0; i < enqueued.pictures.size(); ++i) {
    const JobPicture& picture = enqueued.pictures[i];
    const absl::Status& status = enqueued.unit.parts[i].status;
    if (!status.ok()) metrics_.UnitFailed(enqueued.stage, status);
    status.ok() ? Advance(picture) : FailForUnit(*picture.job, status);
  }
}

void PictureLoop::CompleteOldest() {
  const ThreadWatch::Activity at(loop_watch_, "completing a unit");
  const Period worked = units_.WaitForOldest();
  UnitInFlight& done = units_.oldest();
  CatchOutOfMemory([&] {
    MeasureUnit(done, worked.length());
    return absl::OkStatus();
  }).IgnoreError();
  JobPictures finished;
  for (size_t i = 0; i < done.pictures.size(); ++i) {
    absl::Status completed =
        CatchOutOfMemory([&] { return TryComplete(done, i, worked, finished); });
    if (completed.ok() || IsLostPreview(done.unit.kind, completed)) continue;
    FailForUnit(*done.pictures[i].job, std::move(completed));
  }
  // Before anybody hears of the end: what the unit holds may be evicted then.
  units_.DropOldest();
  for (const JobPicture& picture : finished) {
    absl::Status handed_over = CatchOutOfMemory([&] {
      HandOver(picture);
      return absl::OkStatus();
    });
    if (!handed_over.ok()) Fail(*picture.job, std::move(handed_over));
  }
}

absl::Status PictureLoop::TryComplete(UnitInFlight& done, size_t index, const Period& worked,
                                      JobPictures& finished) {
  const JobPicture& completed = done.pictures[index];
  pipeline::UnitPart& part = done.unit.parts[index];
  if (!part.status.ok()) return absl::OkStatus();
  Job& job = *completed.job;
  pipeline::Picture& picture = completed.picture();
  const absl::Status status = pipeline::CompleteUnit(done.unit, picture, part);
  if (!IsMember(job) && !device::IsFault(status)) return absl::OkStatus();
  if (!status.ok()) {
    metrics_.UnitFailed(done.stage, status);
    if (!IsLostPreview(done.unit.kind, status)) return status;
    LosePreview(completed, part.prediction, status);
    return absl::OkStatus();
  }
  if (part.waits) return absl::OkStatus();
  MeasurePart(done, index, worked.length(), clock_.Monotonic(), metrics_);
  if (done.stage != Stage::kPreview) job.Publish(ProgressOf(done, index, worked));
  if (part.prediction.step > 0 && MayBegin()) encoder_.previews().Add(completed, part.prediction);
  if (picture.has_preview()) Advance(completed);
  if (picture.next == batching::UnitKind::kDone) {
    finished.push_back(completed);
  } else if (done.unit.kind == batching::UnitKind::kDecode) {
    Advance(completed);
  }
  return absl::OkStatus();
}

void PictureLoop::LosePreview(const JobPicture& of, pipeline::Prediction prediction,
                              const absl::Status& failure) {
  encoder_.previews().AddFailed(of, std::move(prediction), failure);
  Advance(of);
}

void PictureLoop::Start(Job& job, absl::Time now) {
  job.timings.queue = now - job.submitted;
  job.dropped_tokens = static_cast<int>(job.pipeline.DroppedTokens(job.spec.picture));
  state_bytes_ += job.state_bytes();
  job.started = true;  // its end takes that back
  metrics_.requests().Began(job.spec.priority);
  metrics_.Began(job.bucket, job.timings.queue, clock_.Wall());
  job.Publish(Started{*job.spec.picture.executed_size});
}

void PictureLoop::MeasureUnit(const UnitInFlight& done, absl::Duration duration) {
  {
    absl::MutexLock lock(&mutex_);
    queue_.Measure(done.what, RowsToLearnFrom(done.unit), duration);
  }
  MeasureJobs(
      done, duration, [this](const Job& job) { return IsMember(job); }, metrics_);
}

void PictureLoop::Advance(const JobPicture& picture) {
  absl::MutexLock lock(&mutex_);
  queue_.Update(picture.job->ids[picture.index], NeedOf(picture.picture()));
}

void PictureLoop::HandOver(const JobPicture& finished) {
  Job& job = *finished.job;
  std::unique_ptr<pipeline::Picture> picture = std::move(job.pictures[finished.index]);
  {
    absl::MutexLock lock(&mutex_);
    Leave(job, job.ids[finished.index]);
  }
  const uint64_t seed = picture->seed;
  DrawnPicture drawn(*picture);
  picture.reset();  // with the graphs that it holds: once its end is told they may be evicted
  encoder_.Add(finished.job, finished.index, seed, std::move(drawn));
}

void PictureLoop::Complete(Job& job) {
  job.timings.total = clock_.Monotonic() - job.submitted;
  metrics_.Completed(job.timings.total, job.predicted);
  Completed completed = job.Completion();
  if (Forget(job, absl::OkStatus())) job.Publish(std::move(completed));
}

void PictureLoop::Fail(Job& job, absl::Status status) {
  if (!Forget(job, status)) return;
  encoder_.Drop(job);
  job.Publish(Failed{std::move(status)});
}

void PictureLoop::FailForUnit(Job& job, absl::Status status) {
  if (!device::IsFault(status)) return Fail(job, std::move(status));
  if (options_.on_device_fault) options_.on_device_fault(status);
  EndForFault();
}

void PictureLoop::Reject(Job& job, absl::Status status) {
  const bool of_its_size = absl::IsResourceExhausted(status) || absl::IsFailedPrecondition(status);
  if (!Forget(job, status, of_its_size ? RejectionOf(status) : nullptr)) return;
  job.Publish(Failed{std::move(status)});
}

void PictureLoop::Leave(const Job& job, batching::PictureId id) {
  if (pictures_.erase(id) == 0) return;
  queue_.Remove(id);
  metrics_.PictureLeft(job.bucket);
}

bool PictureLoop::Forget(const Job& job, const absl::Status& end, const char* rejection) {
  absl::MutexLock lock(&mutex_);
  for (batching::PictureId id : job.ids) Leave(job, id);
  const auto member = jobs_.find(job.handle);
  if (member == jobs_.end()) return false;
  if (member->second.cancelled != CancelCause::kNone) --cancellations_;
  jobs_.erase(member);
  if (job.started) state_bytes_ -= job.state_bytes();
  metrics_.requests().Ended(job.spec.priority, job.started, end, rejection);
  return true;
}

}  // namespace latentd::engine
