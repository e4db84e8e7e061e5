#include "core/engine/cold_requests.h"

#include <algorithm>
#include <utility>

#include "core/base/out_of_memory.h"
#include "core/base/status_macros.h"

namespace latentd::engine {
namespace {

using compiler::GetMode;

absl::Status CancelledByClient() { return absl::CancelledError("the request was cancelled"); }

}  // namespace

absl::Status ColdRequests::Add(const std::shared_ptr<Job>& job, pipeline::SharedInputs inputs) {
  const absl::Status added = CatchOutOfMemory([&] {
    Hold(job, std::move(inputs));
    return absl::OkStatus();
  });
  if (!added.ok()) Remove(job->handle);
  return added;
}

void ColdRequests::Hold(const std::shared_ptr<Job>& job, pipeline::SharedInputs inputs) {
  absl::MutexLock lock(&mutex_);
  waiting_.push_back({job, std::move(inputs)});
  if (served_) return;
  parts_.preparing.Add([this] { PrepareNext(); });
  served_ = true;
}

void ColdRequests::Remove(uint64_t handle) { Extract(handle); }

std::optional<ColdRequests::Waiting> ColdRequests::Extract(uint64_t handle) {
  absl::MutexLock lock(&mutex_);
  const auto found = std::find_if(waiting_.begin(), waiting_.end(), [&](const Waiting& request) {
    return request.job->handle == handle;
  });
  if (found == waiting_.end()) return std::nullopt;
  std::optional<Waiting> extracted(std::move(*found));
  waiting_.erase(found);
  return extracted;
}

std::optional<pipeline::SharedInputs> ColdRequests::Take(uint64_t handle) {
  std::optional<Waiting> request = Extract(handle);
  if (!request.has_value()) return std::nullopt;
  return std::move(request->inputs);
}

std::shared_ptr<Job> ColdRequests::BeginNext() {
  absl::MutexLock lock(&mutex_);
  for (Waiting& request : waiting_) {
    if (!std::exchange(request.begun, true)) return request.job;
  }
  return nullptr;
}

bool ColdRequests::HasMore() {
  absl::MutexLock lock(&mutex_);
  served_ = std::any_of(waiting_.begin(), waiting_.end(),
                        [](const Waiting& request) { return !request.begun; });
  return served_;
}

absl::Status ColdRequests::AddTask(const std::function<void()>& task) {
  return CatchOutOfMemory([&] {
    parts_.preparing.Add(task);
    return absl::OkStatus();
  });
}

// In turns with what else the thread has to do, unless there is no memory for the task.
void ColdRequests::PrepareNext() {
  do {
    if (const std::shared_ptr<Job> job = BeginNext()) Prepare(*job);
    parts_.graphs.DropUnused();
    parts_.changed();
  } while (HasMore() && !AddTask([this] { PrepareNext(); }).ok());
}

void ColdRequests::Prepare(Job& job) {
  absl::Status started = CancelledByClient();
  if (parts_.loop.IsWanted(job)) started = CatchOutOfMemory([&] { return Start(job); });
  Remove(job.handle);
  if (started.ok() || !parts_.loop.IsWanted(job)) return;
  if (IsCold(started)) started = parts_.admission.ColdBucket(*job.plan, started);
  parts_.loop.Reject(job, std::move(started));
}

absl::Status ColdRequests::Start(Job& job) {
  BucketGraphs& buckets = *parts_.models.buckets;
  const pipeline::Plan& plan = *job.plan;
  const pipeline::Size size = plan.executed_size;
  const bool may_compile = parts_.admission.MayCompile(plan);
  ASSIGN_OR_RETURN(const GraphHandles graphs,
                   pipeline::HandlesOf(plan.graphs, pipeline::ModelGraphs::IfUnknown::kBuild));
  const compiler::Purpose purpose{.mode = may_compile ? GetMode::kCompile : GetMode::kLoad,
                                  .reason = compiler::Reason::kColdRequest,
                                  .evict_unused_since = parts_.graphs.MarkWanted(graphs)};
  if (may_compile) {
    RETURN_IF_ERROR(parts_.admission.CheckFits(plan, graphs, purpose.evict_unused_since,
                                               [&] { return parts_.loop.IsWanted(job); }));
  }
  const absl::StatusOr<Executables> executables = GetAll(job, graphs, purpose);
  // A failure of compiling is remembered with the graphs.
  const bool gone =
      absl::IsResourceExhausted(executables.status()) || absl::IsCancelled(executables.status());
  if (!gone) buckets.KeepCold(size, graphs);
  RETURN_IF_ERROR(executables.status());
  std::optional<pipeline::SharedInputs> inputs = Take(job.handle);
  if (!inputs.has_value()) return CancelledByClient();
  ASSIGN_OR_RETURN(auto pictures,
                   parts_.models.pipeline->Start(job.plan, *std::move(inputs), purpose));
  buckets.KeepCold(size, pictures.front()->request->graphs);  // graphs for previews too
  buckets.SetOutcome(size, absl::OkStatus());
  parts_.loop.Begin(job, std::move(pictures));
  return absl::OkStatus();
}

// A graph at a time, since the client may go meanwhile.
absl::StatusOr<ColdRequests::Executables> ColdRequests::GetAll(const Job& job,
                                                               const GraphHandles& graphs,
                                                               const compiler::Purpose& purpose) {
  Executables executables;
  for (const compiler::GraphHandle& graph : graphs) {
    if (!parts_.loop.IsWanted(job)) return CancelledByClient();
    ASSIGN_OR_RETURN(executables.emplace_back(), parts_.graphs.Get(graph, purpose));
  }
  return executables;
}

}  // namespace latentd::engine
