#include "core/engine/prepare/cold_requests.h"

#include <utility>

#include "absl/cleanup/cleanup.h"
#include "core/base/errors/out_of_memory.h"
#include "core/base/errors/status_macros.h"

namespace latentd::engine {
namespace {

using compiler::GetMode;

absl::Status CancelledByClient() { return absl::CancelledError("the request was cancelled"); }

}  // namespace

void ColdRequests::Add(const std::shared_ptr<Job>& job, pipeline::SharedInputs inputs) {
  absl::Cleanup not_added = [&] { Remove(job->handle); };
  {
    absl::MutexLock lock(&mutex_);
    waiting_.emplace(job->handle, std::move(inputs));
  }
  parts_.preparer.Submit(
      {.key = job->handle,
       .whole = true,
       .tasks = {[this, job](auto& order) { return Order(*job, order); }},
       .progress = [this, job](const auto&) { return parts_.loop.IsWanted(*job); },
       .end = [this, job](Preparer::Ended ended) { End(*job, std::move(ended)); }});
  std::move(not_added).Cancel();
}

void ColdRequests::Remove(uint64_t handle) {
  Take(handle);
  parts_.preparer.Withdraw(handle);
}

std::optional<pipeline::SharedInputs> ColdRequests::Take(uint64_t handle) {
  absl::MutexLock lock(&mutex_);
  auto request = waiting_.extract(handle);
  if (request.empty()) return std::nullopt;
  return std::move(request.mapped());
}

absl::Status ColdRequests::Order(const Job& job, Preparer::Order& order) {
  if (!parts_.loop.IsWanted(job)) return CancelledByClient();
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

absl::Status ColdRequests::Begin(Job& job, const Preparer::Ended& ended) {
  BucketGraphs& buckets = *parts_.models.buckets;
  const ModelBucket bucket = BucketOf(*job.plan);
  // A failure of compiling is remembered with the graphs.
  const bool gone = absl::IsResourceExhausted(ended.status) || absl::IsCancelled(ended.status);
  if (!gone && !ended.graphs.empty()) Keep(*job.plan, ended.graphs);
  RETURN_IF_ERROR(ended.status);
  std::optional<pipeline::SharedInputs> inputs = Take(job.handle);
  if (!inputs.has_value()) return CancelledByClient();
  ASSIGN_OR_RETURN(auto pictures,
                   parts_.models.pipeline->Start(job.plan, *std::move(inputs), ended.purpose));
  Keep(*job.plan, pictures.front()->request->graphs);  // graphs for previews too
  buckets.SetOutcome(bucket, absl::OkStatus());
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
  absl::Status begun = CatchOutOfMemory([&] { return Begin(job, ended); });
  ended = {};
  Take(job.handle);
  if (!begun.ok() && parts_.loop.IsWanted(job)) {
    if (IsCold(begun)) begun = parts_.admission.ColdBucket(*job.plan, begun);
    parts_.loop.Reject(job, std::move(begun));
  }
  parts_.graphs.DropUnused();
  parts_.changed();
}

}  // namespace latentd::engine
