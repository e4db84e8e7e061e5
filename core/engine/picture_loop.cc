#include "core/engine/picture_loop.h"

#include <utility>
#include <vector>

#include "absl/synchronization/mutex.h"
#include "core/base/out_of_memory.h"
#include "core/base/status_macros.h"
#include "core/base/threads.h"
#include "core/device/device_fault.h"
#include "core/engine/arrival.h"
#include "core/pipeline/units/conditioning.h"

namespace latentd::engine {
PictureLoop::PictureLoop(Options options, device::Device& device, EngineMetrics& metrics,
                         const Clock& clock)
    : options_(std::move(options)),
      metrics_(metrics),
      clock_(clock),
      watches_(clock),
      loop_watch_(watches_.Add("loop")),
      ending_watch_(watches_.Add("end")),
      bytes_(std::make_shared<PictureBytes>(options_.picture_bytes, [this] { jobs_.Wake(); })),
      jobs_(LimitsOf(options_.queue, *bytes_), CallbacksOfJobs(), metrics, clock),
      units_(options_.units, device, loop_watch_, clock),
      encoder_(options_.encoders, options_.encode,
               {.is_wanted = [this](const Job& job) { return IsWanted(job); },
                .fail = [this](Job& job, absl::Status status) { Fail(job, std::move(status)); },
                .complete = [this](Job& job) { Complete(job); },
                .warn = options_.units.warn},
               bytes_, watches_, metrics, clock),
      ending_("end"),
      thread_(StartThread("loop", [this] { RunLoop(); })) {
  thread_began_.WaitForNotification();
}

PictureLoop::~PictureLoop() {
  Drain(clock_.Monotonic());
  jobs_.Stop();
  thread_.join();
  ending_.Stop();
  bytes_->Disconnect();
}

absl::Status PictureLoop::Admit(const std::shared_ptr<Job>& job, size_t input_bytes) {
  // Held until Queued is out: the loop may take the job at once.
  absl::MutexLock publishing(&job->publishing());
  Queued queued;
  RETURN_IF_ERROR(jobs_.Add(job, input_bytes, queued));
  // From here on it is a member, which has an end of its own.
  const absl::Status counted =
      CatchOutOfMemory([&] { metrics_.PicturesCame(job->bucket, job->picture_count()); });
  if (!counted.ok()) Abandon(job->handle);
  job->PublishLocked(std::move(queued));
  return absl::OkStatus();
}

AdmittedJobs::Callbacks PictureLoop::CallbacksOfJobs() {
  return {.may_begin = [this] { return MayBegin(); },
          .end_early = [this](const std::shared_ptr<Job>& job,
                              CancelCause cause) { EndEarly(job, cause); }};
}

bool PictureLoop::MayBegin() const {
  return bytes_->HasRoomForResults() && bytes_->unencoded() < options_.queue.pictures;
}

void PictureLoop::EndEarly(const std::shared_ptr<Job>& job, CancelCause cause) {
  CatchOutOfMemory([&] {
    ending_.Add([this, job, cause] {
      const ThreadWatch::Activity ends(ending_watch_, "ending a request");
      Fail(*job, StatusOf(cause));
    });
  }).IgnoreError();  // the loop ends it
}

// A picture can run until the device has the unit that it was given, and is not idle then: so there
// is no moment in between at which neither says that something goes on.
bool PictureLoop::WaitsForReaders() const {
  return jobs_.WaitToBegin(
      [this] { return units_.is_device_idle() && !bytes_->HasRoomForResults(); });
}

void PictureLoop::RunLoop() {
  if (options_.begin_thread) options_.begin_thread();
  thread_began_.Notify();
  bool goes_on = true;
  // A border: there may be memory the next time.
  while (goes_on) CatchOutOfMemory([&] { goes_on = TakeTurn(); }).IgnoreError();
}

bool PictureLoop::TakeTurn() {
  const ThreadWatch::Activity at(loop_watch_, "looking for work");
  if (!units_.empty() && units_.IsOldestDone()) {
    CompleteOldest();
    return true;
  }
  units_.LeaveLanes([this](const Job& job) { return jobs_.Contains(job); });
  TellWaiting();
  const absl::Time enqueue_at = units_.NextEnqueueTime();
  const bool may_enqueue = enqueue_at <= clock_.Monotonic();
  Work work = jobs_.Next(may_enqueue, /*idle=*/units_.empty(), loop_watch_);
  if (work.cancelled != nullptr) {
    EndCancelled(*work.cancelled, work.cause);
  } else if (work.unit) {
    Enqueue(std::move(work));
  } else if (!may_enqueue && !units_.full()) {
    jobs_.AwaitCancellation(enqueue_at, loop_watch_);
  } else if (!units_.empty()) {
    CompleteOldest();
  } else {
    return !work.stop;
  }
  return true;
}

void PictureLoop::TellWaiting() {
  for (auto& [job, queued] : jobs_.ChangedProspects()) job->Publish(std::move(queued));
}

void PictureLoop::EndCancelled(Job& job, CancelCause cause) {
  units_.LeaveLanes([&](const Job& other) { return &other != &job; });
  Fail(job, StatusOf(cause));
}

void PictureLoop::Enqueue(Work work) {
  const ThreadWatch::Activity at(loop_watch_, "beginning a unit");
  const JobPicture& first = work.pictures.front();
  const batching::UnitKind kind = work.unit->kind;
  const Stage stage = StageOf(kind);
  // A border: the pictures of the unit fail.
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
    status.ok() ? jobs_.Update(picture) : FailForUnit(*picture.job, status);
  }
}

void PictureLoop::CompleteOldest() {
  const ThreadWatch::Activity at(loop_watch_, "completing a unit");
  const Period worked = units_.WaitForOldest();
  UnitInFlight& done = units_.oldest();
  // Each of them a border: a picture fails alone, and none for the figures.
  CatchOutOfMemory([&] { MeasureUnit(done, worked.length()); }).IgnoreError();
  JobPictures finished;
  for (size_t i = 0; i < done.pictures.size(); ++i) {
    absl::Status completed =
        CatchOutOfMemory([&] { return TryComplete(done, i, worked, finished); });
    if (completed.ok() || IsLostPreview(done.unit.kind, completed)) continue;
    FailForUnit(*done.pictures[i].job, std::move(completed));
  }
  // Before the end is reported: graphs that the unit holds may be evicted then.
  units_.DropOldest();
  for (const JobPicture& picture : finished) {
    absl::Status handed_over = CatchOutOfMemory([&] { HandOver(picture); });
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
  if (!jobs_.Contains(job) && !device::IsFault(status)) return absl::OkStatus();
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
  if (picture.has_preview()) jobs_.Update(completed);
  if (picture.next == batching::UnitKind::kDone) {
    finished.push_back(completed);
  } else if (done.unit.kind == batching::UnitKind::kDecode) {
    jobs_.Update(completed);
  }
  return absl::OkStatus();
}

pipeline::SharedInputs PictureLoop::Count(pipeline::SharedInputs inputs) {
  if (inputs == nullptr || inputs->bytes() == 0) return nullptr;
  struct Counted {
    pipeline::SharedInputs inputs;
    std::shared_ptr<const void> count;
  };
  auto count = bytes_->Count(PictureBytes::Kind::kInput, inputs->bytes());
  const auto both = std::make_shared<const Counted>(Counted{std::move(inputs), std::move(count)});
  return {both, both->inputs.get()};
}

void PictureLoop::LosePreview(const JobPicture& of, pipeline::Prediction prediction,
                              const absl::Status& failure) {
  encoder_.previews().AddFailed(of, std::move(prediction), failure);
  jobs_.Update(of);
}

void PictureLoop::Start(Job& job, absl::Time now) {
  job.timings.queue = now - job.submitted;
  job.dropped_tokens = static_cast<int>(pipeline::DroppedTokens(*job.plan));
  jobs_.Started(job);
  metrics_.Began(job.bucket, job.timings.queue, clock_.Wall());
  job.Publish(Started{job.plan->executed_size});
}

void PictureLoop::MeasureUnit(const UnitInFlight& done, absl::Duration duration) {
  units_.WarnOfRows(done);
  jobs_.Measure(done.what, RowsToLearnFrom(done.unit), duration);
  MeasureJobs(
      done, duration, [this](const Job& job) { return jobs_.Contains(job); }, metrics_);
}

void PictureLoop::HandOver(const JobPicture& finished) {
  Job& job = *finished.job;
  std::unique_ptr<pipeline::Picture> picture = std::move(job.pictures[finished.index]);
  jobs_.Remove(finished);
  const uint64_t seed = picture->seed;
  job.image_warnings = picture->request->image_warnings;
  DrawnPicture drawn(*picture);
  picture.reset();  // with the graphs that it holds: once its end is told they may be evicted
  encoder_.Add(finished.job, finished.index, seed, std::move(drawn));
}

void PictureLoop::Complete(Job& job) {
  job.timings.total = clock_.Monotonic() - job.submitted;
  metrics_.Completed(job.timings.total, job.predicted);
  Completed completed = job.Completion();
  if (jobs_.Remove(job, absl::OkStatus())) job.Publish(std::move(completed));
}

void PictureLoop::Fail(Job& job, absl::Status status) {
  if (!jobs_.Remove(job, status)) return;
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
  if (!jobs_.Remove(job, status, of_its_size ? RejectionOf(status) : nullptr)) return;
  job.Publish(Failed{std::move(status)});
}

}  // namespace latentd::engine
