#include "core/engine/prepare/cold_requests.h"

#include <utility>

#include "absl/cleanup/cleanup.h"
#include "core/base/errors/out_of_memory.h"
#include "core/base/errors/status_macros.h"
#include "core/device/device_fault.h"

namespace latentd::engine {
namespace {

using compiler::GetMode;

absl::Status CancelledByClient() { return absl::CancelledError("the request was cancelled"); }

}  // namespace

void ColdRequests::Add(const std::shared_ptr<Job>& job, pipeline::SharedInputs inputs) {
  absl::Cleanup not_added = [&] { Remove(job->handle); };
  {
    absl::MutexLock lock(&mutex_);
    waiting_[job->handle] = {.job = job, .inputs = std::move(inputs)};
  }
  Submit(job);
  std::move(not_added).Cancel();
}

void ColdRequests::Submit(const std::shared_ptr<Job>& job) {
  parts_.preparer.Submit(
      {.key = job->handle,
       .whole = true,
       .tasks = {[this, job](auto& order) { return Order(*job, order); }},
       .progress =
           [this, job](const auto&) {
             Foresee();
             return parts_.loop.IsWanted(*job);
           },
       .end = [this, job](Preparer::Ended ended) { End(*job, std::move(ended)); }});
}

void ColdRequests::Remove(uint64_t handle) {
  Take(handle);
  parts_.preparer.Withdraw(handle);
}

ColdRequests::Taken ColdRequests::TakeAll() {
  Taken all;
  {
    absl::MutexLock lock(&mutex_);
    all.reserve(waiting_.size());
    for (auto& [handle, request] : waiting_) {
      all.emplace_back(std::move(request.job), std::move(request.inputs));
      if (request.lacks_memory) --lack_memory_;
    }
    waiting_.clear();
  }
  for (const auto& [job, inputs] : all) parts_.preparer.Withdraw(job->handle);
  return all;
}

std::optional<pipeline::SharedInputs> ColdRequests::Take(uint64_t handle) {
  std::map<uint64_t, Waiting>::node_type request;  // its job is let go of without the lock
  absl::MutexLock lock(&mutex_);
  request = waiting_.extract(handle);
  if (request.empty()) return std::nullopt;
  if (request.mapped().lacks_memory) --lack_memory_;
  return std::move(request.mapped().inputs);
}

std::vector<std::shared_ptr<Job>> ColdRequests::Ordered() const {
  std::vector<std::shared_ptr<Job>> jobs;
  absl::MutexLock lock(&mutex_);
  for (const auto& [handle, request] : waiting_) {
    if (!request.lacks_memory) jobs.push_back(request.job);
  }
  return jobs;
}

absl::Time ColdRequests::TimeOf(const LoadTime& load) const {
  return load.known ? parts_.clock.Monotonic() + load.time : absl::InfiniteFuture();
}

absl::Time ColdRequests::ReadyAt(const pipeline::Plan& plan) const {
  LoadTime load;
  for (const std::shared_ptr<Job>& job : Ordered()) {
    parts_.admission.AddLoadTime(*job->plan, load);
  }
  parts_.admission.AddLoadTime(plan, load);
  return TimeOf(load);
}

void ColdRequests::Foresee() {
  LoadTime load;
  for (const std::shared_ptr<Job>& job : Ordered()) {
    parts_.admission.AddLoadTime(*job->plan, load);
    parts_.loop.Foresee(*job, TimeOf(load));
  }
}

void ColdRequests::TryAgain() {
  ++departures_;
  if (lack_memory_ == 0) return;
  // A later call does it if there is no memory for this either.
  CatchOutOfMemory([&] {
    parts_.preparer.Submit({.whole = true, .tasks = {[this](auto&) {
                                             SubmitAgain();
                                             return absl::OkStatus();
                                           }}});
  }).IgnoreError();
}

void ColdRequests::SubmitAgain() {
  std::vector<std::shared_ptr<Job>> again;
  {
    absl::MutexLock lock(&mutex_);
    again.reserve(waiting_.size());
    for (auto& [handle, request] : waiting_) {
      if (!std::exchange(request.lacks_memory, false)) continue;
      --lack_memory_;
      again.push_back(request.job);
    }
  }
  for (const std::shared_ptr<Job>& job : again) {
    absl::Status submitted = CatchOutOfMemory([&] { Submit(job); });
    if (submitted.ok()) continue;
    Take(job->handle);
    parts_.loop.Reject(*job, std::move(submitted));
  }
}

bool ColdRequests::AwaitsMemory(Job& job) {
  const int seen = departures_;
  const Room room = parts_.admission.RoomFor(*job.plan);
  if (room == Room::kNone) return false;
  bool again = false;
  {
    absl::MutexLock lock(&mutex_);
    const auto found = waiting_.find(job.handle);
    if (found == waiting_.end()) return false;
    Waiting& request = found->second;
    request.vain_tries = room == Room::kNow ? request.vain_tries + 1 : 0;
    if (request.vain_tries > kMostVainTries) return false;
    request.lacks_memory = true;
    ++lack_memory_;
    // A departure from before it lacked memory was not told to it.
    again = request.vain_tries == 1 || departures_ != seen;
  }
  parts_.loop.Foresee(job, absl::InfiniteFuture());
  if (again) SubmitAgain();
  return true;
}

absl::Status ColdRequests::Order(const Job& job, Preparer::Order& order) {
  if (!parts_.loop.IsWanted(job)) return CancelledByClient();
  Foresee();
  const pipeline::Plan& plan = *job.plan;
  const bool may_compile = parts_.admission.MayCompile(plan);
  ASSIGN_OR_RETURN(GraphHandles graphs, parts_.models.pipeline->HandlesOf(
                                            plan, pipeline::ModelGraphs::IfUnknown::kBuild));
  order.purpose = {.mode = may_compile ? GetMode::kCompile : GetMode::kLoad,
                   .reason = compiler::Reason::kColdRequest,
                   .evict_unused_since = parts_.graphs.MarkWanted(graphs)};
  if (may_compile || plan.adapters != 0 || parts_.models.buckets->IsOnDemand(BucketOf(plan))) {
    RETURN_IF_ERROR(parts_.admission.CheckFits(plan, graphs, order.purpose.evict_unused_since,
                                               [&] { return parts_.loop.IsWanted(job); }));
  }
  order.graphs = std::move(graphs);
  return absl::OkStatus();
}

absl::Status ColdRequests::Begin(Job& job, const Preparer::Ended& ended, bool& taken) {
  BucketGraphs& buckets = *parts_.models.buckets;
  const ModelBucket bucket = BucketOf(*job.plan);
  // A failure of compiling is remembered with the graphs.
  const bool gone = absl::IsResourceExhausted(ended.status) || absl::IsCancelled(ended.status);
  if (!gone && !ended.graphs.empty()) Keep(*job.plan, ended.graphs);
  RETURN_IF_ERROR(ended.status);
  std::optional<pipeline::SharedInputs> inputs = Take(job.handle);
  taken = inputs.has_value();
  if (!taken) return CancelledByClient();
  ASSIGN_OR_RETURN(auto pictures,
                   parts_.models.pipeline->Start(job.plan, *std::move(inputs), ended.purpose));
  Keep(*job.plan, pictures.front()->request->graphs);  // graphs for previews too
  if (parts_.admission.IsInBucketsChunks(*job.plan)) buckets.SetOutcome(bucket, absl::OkStatus());
  parts_.loop.Begin(job, std::move(pictures));
  if (job.plan->adapters == 0) {
    parts_.begun(bucket);
  } else {
    OrderDispensable(job.plan);
  }
  return absl::OkStatus();
}

// Graphs over adapters are kept by their set, and the model's own are those of the next set.
void ColdRequests::Keep(const pipeline::Plan& plan, const GraphHandles& graphs) {
  BucketGraphs& buckets = *parts_.models.buckets;
  if (plan.adapters == 0) return buckets.KeepCold(BucketOf(plan), graphs);
  const absl::StatusOr<GraphHandles> own = parts_.models.pipeline->HandlesOf(
      plan, pipeline::ModelGraphs::IfUnknown::kBuild, pipeline::Pipeline::Of::kModels);
  if (own.ok()) buckets.KeepCold(BucketOf(plan), *own);
}

// Larger steps over the adapters, for the images of later requests to share.
void ColdRequests::OrderDispensable(const pipeline::SharedPlan& plan) {
  const auto declare = [this, plan](Preparer::Order& order) {
    const auto graphs =
        parts_.models.pipeline->DispensableOf(*plan, pipeline::ModelGraphs::IfUnknown::kRefuse);
    if (graphs.ok()) order.graphs = *graphs;
    return absl::OkStatus();
  };
  parts_.preparer.Submit({.priority = Preparer::Priority::kSpare,
                          .purpose = {.mode = GetMode::kLoad, .displaces_nothing = true},
                          .tasks = {declare}});
}

void ColdRequests::End(Job& job, Preparer::Ended ended) {
  // A border: who waits for the request is told.
  bool taken = false;
  absl::Status begun = CatchOutOfMemory([&] { return Begin(job, ended, taken); });
  ended = {};
  // Until the device's are moved; where it was the last one they are cancelled.
  bool waits = device::IsFault(begun);
  if (absl::IsResourceExhausted(begun) && parts_.loop.IsWanted(job)) {
    CatchOutOfMemory([&] { waits = AwaitsMemory(job); }).IgnoreError();
  }
  if (!waits && Take(job.handle).has_value()) taken = true;
  // One that was removed is ended by who did so, or waits for another device.
  if (!begun.ok() && taken && parts_.loop.IsWanted(job)) {
    if (IsCold(begun)) begun = parts_.admission.ColdBucket(*job.plan, begun);
    if (device::IsFault(begun)) {
      parts_.loop.ReportFault(begun, job.device);
      begun = parts_.loop.FaultError();
    }
    parts_.loop.Reject(job, std::move(begun));
  }
  parts_.graphs.DropUnused();
  parts_.changed();
}

}  // namespace latentd::engine
