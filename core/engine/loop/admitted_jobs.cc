#include "core/engine/loop/admitted_jobs.h"

#include <algorithm>
#include <bit>
#include <utility>

#include "absl/algorithm/container.h"
#include "core/base/errors/status_macros.h"
#include "core/engine/api/serving.h"
#include "core/engine/requests/arrival.h"

namespace latentd::engine {

AdmittedJobs::AdmittedJobs(batching::Limits limits, Callbacks callbacks, EngineMetrics& metrics,
                           const Clock& clock)
    : callbacks_(std::move(callbacks)),
      metrics_(metrics),
      clock_(clock),
      state_bytes_(limits.devices),
      queue_(limits, clock),
      begun_cancelled_(limits.devices) {}

absl::Status AdmittedJobs::Add(const std::shared_ptr<Job>& job, size_t input_bytes,
                               Queued& queued) {
  absl::MutexLock lock(&mutex_);
  if (!LeaveLost(*job)) return StatusOf(FaultCause());
  if (draining_) return DrainingError();
  const int count = job->picture_count();
  for (int i = 0; i < count; ++i) job->ids.push_back(next_id_++);
  pictures_.reserve(pictures_.size() + count);
  jobs_.reserve(jobs_.size() + 1);
  Deadlines deadline = {{job->spec.deadline, job->handle}};
  queued = {.request_id = job->spec.request_id};
  ASSIGN_OR_RETURN(const batching::Prospect prospect, queue_.Admit(ArrivalOf(*job, input_bytes)));
  UpdateAll(*job);
  // From here on nothing asks for memory: the job is a member in all of it, or in nothing.
  for (int i = 0; i < count; ++i) pictures_[job->ids[i]] = {job, i};
  jobs_[job->handle] = {.job = job, .told = prospect};
  deadlines_.merge(deadline);
  metrics_.requests().Accepted(job->spec.priority);
  SetProspect(prospect, queued);
  job->predicted = queued.total;
  return absl::OkStatus();
}

void AdmittedJobs::Begin(Job& job, Job::Pictures pictures,
                         std::vector<std::pair<size_t, Job::Pictures>> others) {
  absl::MutexLock lock(&mutex_);
  const auto found = jobs_.find(job.handle);
  if (found == jobs_.end()) return;
  job.pictures = std::move(pictures);
  job.others = std::move(others);
  if (!LeaveLost(job)) return Cancel(FaultCause(), found->second);
  UpdateAll(job);
}

void AdmittedJobs::Foresee(Job& job, absl::Time ready) {
  absl::MutexLock lock(&mutex_);
  if (!jobs_.contains(job.handle) || !job.pictures.empty()) return;
  job.need.ready = ready;
  for (const batching::PictureId id : job.ids) queue_.Update(id, job.need);
}

void AdmittedJobs::UpdateAll(const Job& job) {
  for (size_t i = 0; i < job.pictures.size(); ++i) {
    queue_.Update(job.ids[i], NeedOf(*job.pictures[i]));
  }
}

void AdmittedJobs::Cancel(CancelCause cause, uint64_t handle) {
  absl::MutexLock lock(&mutex_);
  const auto found = jobs_.find(handle);
  if (found != jobs_.end()) Cancel(cause, found->second);
}

void AdmittedJobs::Cancel(CancelCause cause, Member& member) {
  if (member.cancelled != CancelCause::kNone) return;
  const bool is_late = member.job->spec.deadline <= clock_.Monotonic() + kDeadlineSlack;
  member.cancelled = cause == CancelCause::kClient && is_late ? CancelCause::kDeadline : cause;
  deadlines_.erase({member.job->spec.deadline, member.job->handle});
  ++CountOf(member);
  const bool has_loop = member.begun && !IsLost(member.job->device);
  if (!has_loop) callbacks_.end_early(member.job, member.cancelled);
}

int& AdmittedJobs::CountOf(const Member& cancelled) {
  return cancelled.begun ? begun_cancelled_[cancelled.job->device] : unbegun_cancelled_;
}

void AdmittedJobs::CancelAll(CancelCause cause) {
  for (auto& [handle, member] : jobs_) Cancel(cause, member);
}

void AdmittedJobs::Drain(absl::Time deadline) {
  absl::MutexLock lock(&mutex_);
  draining_ = true;
  const auto idle = [this]() ABSL_EXCLUSIVE_LOCKS_REQUIRED(mutex_) { return jobs_.empty(); };
  const absl::Duration left = deadline - clock_.Monotonic();
  // Without time the lock is kept: no unit begins before all are cancelled.
  if (left > absl::ZeroDuration() && mutex_.AwaitWithTimeout(absl::Condition(&idle), left)) return;
  CancelAll(CancelCause::kDrain);
  mutex_.Await(absl::Condition(&idle));
}

void AdmittedJobs::Lose(size_t device) {
  absl::MutexLock lock(&mutex_);
  if (IsLost(device)) return;
  lost_ |= uint64_t{1} << device;
  queue_.Lose(static_cast<int>(device));
  const CancelCause cause = FaultCause();
  for (auto& [handle, member] : jobs_) {
    Job& job = *member.job;
    if (member.begun) {
      if (IsLost(job.device)) LoseBegun(cause, member);
      continue;
    }
    const bool awaits_graphs = job.pictures.empty();
    const bool stays = LeaveLost(job) || (awaits_graphs && cause == CancelCause::kDeviceLost);
    stays ? UpdateAll(job) : Cancel(cause, member);
  }
}

void AdmittedJobs::LoseBegun(CancelCause cause, Member& member) {
  const Job& job = *member.job;
  if (member.cancelled != CancelCause::kNone) {
    return callbacks_.end_early(member.job, member.cancelled);
  }
  const bool draws =
      absl::c_any_of(job.ids, [this](batching::PictureId id) ABSL_EXCLUSIVE_LOCKS_REQUIRED(mutex_) {
        return pictures_.contains(id);
      });
  if (draws || cause == CancelCause::kDeviceFault) Cancel(cause, member);
}

// Pictures for lost devices stay in `others`: the last owner of one may have much to let go of,
// which is not for the lock.
bool AdmittedJobs::LeaveLost(Job& job) {
  job.devices &= ~lost_;
  if (!IsLost(job.device)) return true;
  const auto left =
      absl::c_find_if(job.others, [this](const auto& other) { return !IsLost(other.first); });
  if (left != job.others.end()) {
    job.DrawOn(left->first);
    return true;
  }
  // It has none yet, or it gets them.
  return job.pictures.empty() && job.devices != 0;
}

CancelCause AdmittedJobs::FaultCause() const {
  const bool all = first_device() == state_bytes_.size();
  return all ? CancelCause::kDeviceFault : CancelCause::kDeviceLost;
}

size_t AdmittedJobs::first_device() const {
  return static_cast<size_t>(std::countr_one(lost_.load()));
}

int AdmittedJobs::places() const {
  absl::MutexLock lock(&mutex_);
  return queue_.places();
}

bool AdmittedJobs::MoveTo(size_t device, Job& job) {
  absl::MutexLock lock(&mutex_);
  const auto found = jobs_.find(job.handle);
  if (found == jobs_.end() || found->second.cancelled != CancelCause::kNone) return false;
  if (!job.pictures.empty() || IsLost(device)) return false;
  job.device = device;
  job.devices = uint64_t{1} << device;
  job.need.ready = absl::InfiniteFuture();
  queue_.Move(job.ids, static_cast<int>(device));
  for (const batching::PictureId id : job.ids) queue_.Update(id, job.need);
  return true;
}

bool AdmittedJobs::Remove(const Job& job, const absl::Status& end, const char* rejection) {
  absl::MutexLock lock(&mutex_);
  for (batching::PictureId id : job.ids) RemovePicture(job, id);
  const auto member = jobs_.find(job.handle);
  if (member == jobs_.end()) return false;
  if (member->second.cancelled != CancelCause::kNone) --CountOf(member->second);
  jobs_.erase(member);
  deadlines_.erase({job.spec.deadline, job.handle});
  if (job.started) state_bytes_[job.device] -= job.state_bytes();
  metrics_.requests().Ended(job.spec.priority, job.started, end, rejection);
  return true;
}

void AdmittedJobs::Remove(const JobPicture& picture) {
  absl::MutexLock lock(&mutex_);
  RemovePicture(*picture.job, picture.job->ids[picture.index]);
}

void AdmittedJobs::RemovePicture(const Job& job, batching::PictureId id) {
  if (pictures_.erase(id) == 0) return;
  queue_.Remove(id);
  metrics_.PictureLeft(job.bucket);
}

bool AdmittedJobs::Contains(const Job& job) const {
  absl::MutexLock lock(&mutex_);
  return jobs_.contains(job.handle);
}

bool AdmittedJobs::IsWanted(const Job& job) const {
  absl::MutexLock lock(&mutex_);
  const auto found = jobs_.find(job.handle);
  return found != jobs_.end() && found->second.cancelled == CancelCause::kNone;
}

batching::Backlog AdmittedJobs::backlog(size_t device) const {
  absl::MutexLock lock(&mutex_);
  return queue_.backlog(static_cast<int>(device));
}

bool AdmittedJobs::WaitToBegin(absl::FunctionRef<bool()> holds, size_t place) const {
  const auto device = static_cast<int>(place);
  absl::MutexLock lock(&mutex_);
  return !queue_.CanRun(/*may_begin=*/false, device) && queue_.CanRun(/*may_begin=*/true, device) &&
         holds();
}

AdmittedJobs::Work AdmittedJobs::Next(bool may_enqueue, bool idle, ThreadWatch& loop,
                                      size_t device) {
  absl::MutexLock lock(&mutex_);
  if (idle) AwaitWork(loop, device);
  CancelLate();
  if (HasCancelled(device)) {
    for (const auto& [handle, member] : jobs_) {
      if (member.cancelled == CancelCause::kNone) continue;
      if (member.begun && member.job->device != device) continue;
      return {.cancelled = member.job, .cause = member.cancelled};
    }
  }
  if (!may_enqueue) return {};
  return NextUnit(device);
}

void AdmittedJobs::AwaitWork(ThreadWatch& loop, size_t device) {
  const auto is_news = [this, device, seen = queue_.changes()]() ABSL_EXCLUSIVE_LOCKS_REQUIRED(
                           mutex_) { return HasWork(device) || queue_.changes() != seen; };
  const ThreadWatch::Activity waits(loop, ThreadWatch::kIdle);
  mutex_.AwaitWithTimeout(absl::Condition(&is_news), NextDeadline() - clock_.Monotonic());
}

absl::Time AdmittedJobs::NextDeadline() const {
  return deadlines_.empty() ? absl::InfiniteFuture() : deadlines_.begin()->first;
}

void AdmittedJobs::AwaitCancellation(absl::Time until, ThreadWatch& loop, size_t device) {
  absl::MutexLock lock(&mutex_);
  const auto is_news = [this, device]()
                           ABSL_EXCLUSIVE_LOCKS_REQUIRED(mutex_) { return HasCancelled(device); };
  const ThreadWatch::Activity waits(loop, ThreadWatch::kIdle);
  mutex_.AwaitWithTimeout(absl::Condition(&is_news),
                          std::min(until, NextDeadline()) - clock_.Monotonic());
}

bool AdmittedJobs::HasWork(size_t device) const {
  return stop_ || HasCancelled(device) ||
         queue_.CanRun(callbacks_.may_begin(), static_cast<int>(device));
}

// The client's own cancellation may be late, or never come.
void AdmittedJobs::CancelLate() {
  const absl::Time now = clock_.Monotonic();
  while (NextDeadline() <= now) {
    Cancel(CancelCause::kDeadline, jobs_.find(deadlines_.begin()->second)->second);
  }
}

AdmittedJobs::Work AdmittedJobs::NextUnit(size_t device) {
  Work work = {.unit = queue_.Next(callbacks_.may_begin(), static_cast<int>(device))};
  work.stop = stop_ && !work.unit;
  if (!work.unit) return work;
  for (batching::PictureId id : work.unit->pictures) {
    work.pictures.push_back(pictures_.find(id)->second);
    Job& job = *work.pictures.back().job;
    if (!std::exchange(jobs_.find(job.handle)->second.begun, true)) job.DrawOn(device);
  }
  return work;
}

AdmittedJobs::Prospects AdmittedJobs::ChangedProspects() {
  Prospects changed;
  absl::MutexLock lock(&mutex_);
  if (std::exchange(changes_told_, queue_.changes()) == queue_.changes()) return changed;
  for (const auto& [picture, prospect] : queue_.Waiting()) {
    const std::shared_ptr<Job>& job = pictures_.find(picture)->second.job;
    batching::Prospect& last = jobs_.find(job->handle)->second.told;
    if (!batching::IsNews(last, prospect)) continue;
    SetProspect(prospect, changed.emplace_back(job, Queued{job->spec.request_id}).second);
    last = prospect;
  }
  return changed;
}

void AdmittedJobs::Started(Job& job) {
  absl::MutexLock lock(&mutex_);
  if (!jobs_.contains(job.handle)) return;
  state_bytes_[job.device] += job.state_bytes();
  job.started = true;  // its end takes that back
  metrics_.requests().Began(job.spec.priority);
}

void AdmittedJobs::Update(const JobPicture& picture) {
  absl::MutexLock lock(&mutex_);
  queue_.Update(picture.job->ids[picture.index], NeedOf(picture.picture()));
}

void AdmittedJobs::Measure(const batching::Unit& unit, int computed_rows, absl::Duration took) {
  absl::MutexLock lock(&mutex_);
  queue_.Measure(unit, computed_rows, took);
}

void AdmittedJobs::Wake() { absl::MutexLock lock(&mutex_); }

void AdmittedJobs::Stop() {
  absl::MutexLock lock(&mutex_);
  stop_ = true;
}

}  // namespace latentd::engine
