#include "core/engine/loop/picture_loop.h"

#include <optional>
#include <utility>
#include <vector>

#include "absl/algorithm/container.h"
#include "absl/memory/memory.h"
#include "absl/synchronization/mutex.h"
#include "core/base/errors/out_of_memory.h"
#include "core/base/errors/status_macros.h"
#include "core/base/threads/threads.h"
#include "core/device/device_fault.h"
#include "core/engine/api/serving.h"
#include "core/engine/requests/arrival.h"

namespace latentd::engine {
namespace {

// True if the device that draws is found to have failed, whether the unit is enqueued or not.
bool IsOwnFault(const absl::Status& enqueued, const UnitsInFlight& units) {
  if (!enqueued.ok()) return device::IsFault(enqueued);
  return absl::c_any_of(units.newest().unit.parts, [](const pipeline::UnitPart& part) {
    return device::IsFault(part.status);
  });
}

PictureLoop::Options Of(PictureLoop::Options options, size_t devices) {
  options.queue.devices = static_cast<int>(devices);
  return options;
}

}  // namespace

PictureLoop::PictureLoop(Options options, const std::vector<Device>& devices,
                         EngineMetrics& metrics, const Clock& clock)
    : options_(Of(std::move(options), devices.size())),
      metrics_(metrics),
      clock_(clock),
      watches_(clock),
      ending_watch_(watches_.Add("end")),
      bytes_(std::make_shared<PictureBytes>(options_.picture_bytes, [this] { jobs_.Wake(); })),
      jobs_(LimitsOf(options_.queue, *bytes_), CallbacksOfJobs(), metrics, clock),
      encoder_(options_.encoders, options_.encode,
               {.is_wanted = [this](const Job& job) { return IsWanted(job); },
                .fail = [this](Job& job, absl::Status status) { Fail(job, std::move(status)); },
                .complete = [this](Job& job) { Complete(job); },
                .warn = options_.units.warn},
               bytes_, watches_, metrics, clock),
      ending_("end") {
  for (const Device& device : devices) {
    ThreadWatch& watch = watches_.Add("loop");
    loops_.push_back(absl::WrapUnique(new DeviceLoop{
        loops_.size(), device.label, watch, {device.units, device.device, watch, clock}}));
  }
  for (const auto& loop : loops_) {
    loop->thread = StartThread("loop", [this, loop = loop.get()] { RunLoop(*loop); });
  }
  for (const auto& loop : loops_) loop->began.WaitForNotification();
}

PictureLoop::~PictureLoop() {
  Drain(clock_.Monotonic());
  jobs_.Stop();
  for (const auto& loop : loops_) loop->thread.join();
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

// A picture can run until its device has the unit that it was given, and is not idle then: so there
// is no moment in between at which neither says that something goes on.
bool PictureLoop::WaitsForReaders() const {
  return absl::c_any_of(loops_, [this](const auto& loop) {
    const auto holds = [&] { return loop->units.is_device_idle() && !bytes_->HasRoomForResults(); };
    return jobs_.WaitToBegin(holds, loop->device);
  });
}

Hangs PictureLoop::FindHangs() const {
  Hangs hangs;
  for (const ThreadWatch& watch : watches_.all()) {
    const std::optional<OverdueThread> overdue = watch.Overdue();
    if (overdue && !IsOfRetired(watch)) hangs.threads.push_back(*overdue);
  }
  for (const auto& loop : loops_) {
    if (IsRetired(loop->device) || hangs.unit.has_value()) continue;
    hangs.unit = loop->units.Overdue();
  }
  return hangs;
}

bool PictureLoop::IsRetired(size_t device) const {
  return jobs_.IsLost(device) && first_device() < loops_.size();
}

bool PictureLoop::IsOfRetired(const ThreadWatch& watch) const {
  return absl::c_any_of(
      loops_, [&](const auto& loop) { return &loop->watch == &watch && IsRetired(loop->device); });
}

void PictureLoop::RunLoop(DeviceLoop& loop) {
  if (options_.begin_thread) options_.begin_thread();
  loop.began.Notify();
  bool goes_on = true;
  // A border: there may be memory the next time.
  while (goes_on) CatchOutOfMemory([&] { goes_on = TakeTurn(loop); }).IgnoreError();
}

bool PictureLoop::TakeTurn(DeviceLoop& loop) {
  UnitsInFlight& units = loop.units;
  const ThreadWatch::Activity at(loop.watch, "looking for work");
  if (!units.empty() && units.IsOldestDone()) {
    CompleteOldest(loop);
    return true;
  }
  units.LeaveLanes([this](const Job& job) { return jobs_.Contains(job); });
  TellWaiting();
  const absl::Time enqueue_at = units.NextEnqueueTime();
  const bool may_enqueue = enqueue_at <= clock_.Monotonic();
  Work work = jobs_.Next(may_enqueue, /*idle=*/units.empty(), loop.watch, loop.device);
  if (work.cancelled != nullptr) {
    EndCancelled(loop, *work.cancelled, work.cause);
  } else if (work.unit) {
    Enqueue(loop, std::move(work));
  } else if (!may_enqueue && !units.full()) {
    jobs_.AwaitCancellation(enqueue_at, loop.watch, loop.device);
  } else if (!units.empty()) {
    CompleteOldest(loop);
  } else {
    return !work.stop;
  }
  return true;
}

void PictureLoop::TellWaiting() {
  absl::MutexLock lock(&telling_);
  for (auto& [job, queued] : jobs_.ChangedProspects()) job->Publish(std::move(queued));
}

void PictureLoop::EndCancelled(DeviceLoop& loop, Job& job, CancelCause cause) {
  loop.units.LeaveLanes([&](const Job& other) { return &other != &job; });
  Fail(job, StatusOf(cause));
}

void PictureLoop::Enqueue(DeviceLoop& loop, Work work) {
  const ThreadWatch::Activity at(loop.watch, "beginning a unit");
  const JobPicture& first = work.pictures.front();
  const batching::UnitKind kind = work.unit->kind;
  const Stage stage = StageOf(kind);
  // A border: the pictures of the unit fail.
  const absl::Status enqueued = CatchOutOfMemory([&] { return TryEnqueue(loop, work); });
  if (enqueued.ok()) return AdvanceAll(loop);
  metrics_.UnitFailed(stage, enqueued);
  if (IsLostPreview(kind, enqueued)) {
    return LosePreview(first, std::exchange(first.picture().prediction, {}), enqueued);
  }
  for (const JobPicture& picture : work.pictures) FailForUnit(*picture.job, enqueued);
}

absl::Status PictureLoop::TryEnqueue(DeviceLoop& loop, Work& work) {
  for (const JobPicture& picture : work.pictures) {
    if (!picture.job->started) Start(*picture.job, clock_.Monotonic());
  }
  if (work.unit->helper < 0) return loop.units.Enqueue(*work.unit, work.pictures);
  const auto device = static_cast<size_t>(work.unit->helper);
  UnitsInFlight::Helper helper = {loops_[device]->units};
  absl::Status enqueued = loop.units.Enqueue(*work.unit, work.pictures, &helper);
  // The pictures go on without it, unless the unit has failed, for another reason: if that is the
  // fault of the device that draws, it may be what the helper's part has met.
  if (device::IsFault(helper.failed) && !IsOwnFault(enqueued, loop.units)) {
    ReportFault(helper.failed, device);
  }
  return enqueued;
}

void PictureLoop::AdvanceAll(DeviceLoop& loop) {
  const UnitInFlight& enqueued = loop.units.newest();
  for (size_t i = 0; i < enqueued.pictures.size(); ++i) {
    const JobPicture& picture = enqueued.pictures[i];
    const absl::Status& status = enqueued.unit.parts[i].status;
    if (!status.ok()) metrics_.UnitFailed(enqueued.stage, status);
    status.ok() ? jobs_.Update(picture) : FailForUnit(*picture.job, status);
  }
}

void PictureLoop::CompleteOldest(DeviceLoop& loop) {
  const ThreadWatch::Activity at(loop.watch, "completing a unit");
  const Period worked = loop.units.WaitForOldest();
  UnitInFlight& done = loop.units.oldest();
  // Each of them a border: a picture fails alone, and none for the figures.
  CatchOutOfMemory([&] {
    loop.units.WarnOfRows(done);
    MeasureUnit(done, worked.length());
  }).IgnoreError();
  JobPictures finished;
  for (size_t i = 0; i < done.pictures.size(); ++i) {
    absl::Status completed =
        CatchOutOfMemory([&] { return TryComplete(done, i, worked, finished); });
    if (completed.ok() || IsLostPreview(done.unit.kind, completed)) continue;
    FailForUnit(*done.pictures[i].job, std::move(completed), FaultyHelper(done));
  }
  // Before the end is reported: graphs that the unit holds may be evicted then.
  loop.units.DropOldest();
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
  if (done.stage != Stage::kPreview) {
    Progress progress = ProgressOf(done, index, worked);
    progress.device = loops_[done.what.device]->label;
    job.Publish(std::move(progress));
  }
  if (part.prediction.step > 0 && MayBegin()) encoder_.previews().Add(completed, part.prediction);
  if (picture.has_preview() || part.stops_guidance) jobs_.Update(completed);
  if (picture.next == batching::UnitKind::kDone) {
    finished.push_back(completed);
  } else if (done.unit.kind == batching::UnitKind::kDecode) {
    const bool has_frames = picture.video != nullptr && !picture.video->frames.empty();
    if (has_frames) HandOverFrames(completed, picture.seed, *picture.video);
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
  if (options_.queue.split != batching::Split::kNever) job.KeepHelpers();
  job.others.clear();
  jobs_.Started(job);
  metrics_.Began(job.bucket, job.timings.queue, clock_.Wall());
  job.Publish(Started{job.plan->executed_size});
}

void PictureLoop::MeasureUnit(const UnitInFlight& done, absl::Duration duration) {
  jobs_.Measure(done.what, RowsToLearnFrom(done.unit), duration);
  metrics_.DeviceWorked(done.what.device, done.stage, duration);
  if (done.what.helper >= 0) metrics_.DeviceHelped(done.what.helper);
  MeasureJobs(
      done, duration, [this](const Job& job) { return jobs_.Contains(job); }, metrics_);
}

void PictureLoop::HandOverFrames(const JobPicture& of, uint64_t seed, pipeline::VideoState& video) {
  const int first = video.decoded - static_cast<int>(video.frames.size());
  encoder_.AddFrames(of.job, of.index, seed, std::exchange(video.frames, {}), first);
}

void PictureLoop::HandOver(const JobPicture& finished) {
  Job& job = *finished.job;
  std::unique_ptr<pipeline::Picture> picture = std::move(job.pictures[finished.index]);
  jobs_.Remove(finished);
  const uint64_t seed = picture->seed;
  job.image_warnings = picture->request->image_warnings;
  job.guidance_stopped_after[finished.index] = picture->guidance_stopped_after();
  const std::unique_ptr<pipeline::VideoState> video = std::move(picture->video);
  DrawnPicture drawn(*picture);
  picture.reset();  // with the graphs that it holds: once its end is told they may be evicted
  if (video != nullptr) return HandOverFrames(finished, seed, *video);
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

void PictureLoop::FailForUnit(Job& job, absl::Status status, std::optional<size_t> helper) {
  if (!device::IsFault(status)) return Fail(job, std::move(status));
  ReportFault(status, helper.value_or(job.device));
  if (helper) Fail(job, jobs_.FaultError());
}

void PictureLoop::ReportFault(const absl::Status& fault, size_t device) {
  if (options_.on_device_fault) options_.on_device_fault(fault, device);
  jobs_.Lose(device);
}

void PictureLoop::Reject(Job& job, absl::Status status) {
  const bool of_its_size = absl::IsResourceExhausted(status) || absl::IsFailedPrecondition(status);
  if (!jobs_.Remove(job, status, of_its_size ? RejectionOf(status) : nullptr)) return;
  job.Publish(Failed{std::move(status)});
}

}  // namespace latentd::engine
