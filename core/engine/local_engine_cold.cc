// Requests whose graphs are not ready: what they would need is predicted before any of it is
// compiled, and what is refused leaves nothing behind. On the preparing thread, one request at a
// time, in turns with what operators warm.
#include <algorithm>
#include <optional>
#include <utility>

#include "absl/strings/str_cat.h"
#include "core/base/error_details.h"
#include "core/base/out_of_memory.h"
#include "core/base/status_macros.h"
#include "core/base/text.h"
#include "core/engine/cold_bucket.h"
#include "core/engine/local_engine.h"
#include "core/engine/memory_tally.h"
#include "core/pipeline/conditioning.h"

namespace latentd::engine {
namespace {

using compiler::GetMode;
using compiler::GraphStore;
using pipeline::BucketPolicy;

RefusedSizes::Picture RefusedPicture(const pipeline::PictureSpec& picture, bool image) {
  const bool base = picture.model == pipeline::Model::kBase;
  return {.size = *picture.executed_size,
          .rows = pipeline::RowsOf(picture),
          .base = base,
          .refiner = !base || picture.refine,
          .image = image};
}

// Stands for all graphs of a size in messages.
compiler::GraphLabel LabelOf(const pipeline::PictureSpec& picture) {
  return {.component = "a picture of",
          .width = picture.executed_size->width,
          .height = picture.executed_size->height,
          .rows = pipeline::RowsOf(picture)};
}

absl::Status TooLarge(pipeline::Size size, int64_t needed, int64_t budget) {
  return WithReason(absl::ResourceExhaustedError(
                        absl::StrCat("a picture of ", SizeText(size), " needs at least ", needed,
                                     " bytes of memory, and the server may hold ", budget)),
                    "OUT_OF_MEMORY");
}

void AddTo(backends::MemoryNeeds& together, const backends::MemoryNeeds& more) {
  together.arena_bytes = std::max(together.arena_bytes, more.arena_bytes);
  together.executable_bytes += more.executable_bytes;
  together.weights.insert(more.weights.begin(), more.weights.end());
  together.making.insert(more.making.begin(), more.making.end());
}

}  // namespace

absl::Status LocalEngine::AddCold(const std::shared_ptr<Job>& job, pipeline::PictureSpec picture) {
  absl::Status added = CatchOutOfMemory([&] {
    if (!cold_.Add(job, std::move(picture))) return absl::OkStatus();
    return AddPreparing([this] { PrepareNext(); });
  });
  if (added.ok()) return added;
  cold_.Remove(job->handle);
  cold_.HasMore();  // nothing: the next one to be added is served again
  return added;
}

absl::Status LocalEngine::AddPreparing(const std::function<void()>& task) {
  return CatchOutOfMemory([&] {
    preparing_.Add(task);
    return absl::OkStatus();
  });
}

// In turns with what else the thread has to do, unless there is no memory for the task.
void LocalEngine::PrepareNext() {
  do {
    Prepare(cold_.BeginNext());
    stores_.graphs.DropUnused();
    ShowBuckets();
  } while (cold_.HasMore() && !AddPreparing([this] { PrepareNext(); }).ok());
}

void LocalEngine::Prepare(const ColdRequests::Begun& request) {
  if (request.job == nullptr) return;
  Job& job = *request.job;
  absl::Status started = absl::CancelledError("the request was cancelled");
  if (loop_.IsWanted(job.handle)) {
    started = CatchOutOfMemory([&] { return StartPrepared(request); });
  }
  cold_.Remove(job.handle);
  if (started.ok() || !loop_.IsWanted(job.handle)) return;
  if (IsCold(started)) started = ColdBucket(job.spec.picture, started);
  metrics_.RejectedLater(started);
  loop_.Fail(job, std::move(started));
}

absl::Status LocalEngine::StartPrepared(const ColdRequests::Begun& request) {
  Job& job = *request.job;
  const pipeline::PictureSpec& picture = job.spec.picture;
  const pipeline::Size size = *picture.executed_size;
  const bool may_compile = picture.bucket_policy == BucketPolicy::kColdOk;
  ASSIGN_OR_RETURN(const GraphHandles graphs, buckets_->GraphsFor(picture, request.has_image,
                                                                  BucketGraphs::IfUnknown::kBuild));
  const compiler::Purpose purpose{.mode = may_compile ? GetMode::kCompile : GetMode::kLoad,
                                  .reason = compiler::Reason::kColdRequest,
                                  .evict_unused_since = stores_.graphs.MarkWanted(graphs)};
  if (may_compile && !buckets_->IsServed(size)) {
    RETURN_IF_ERROR(CheckColdFits(request, graphs, purpose));
  }
  const absl::StatusOr<Executables> executables = GetAll(job, graphs, purpose);
  // A failure of compiling is remembered with the graphs.
  const bool gone =
      absl::IsResourceExhausted(executables.status()) || absl::IsCancelled(executables.status());
  if (!gone) buckets_->KeepCold(size, graphs);
  RETURN_IF_ERROR(executables.status());
  std::optional<pipeline::PictureSpec> whole = cold_.Take(job.handle);
  if (!whole.has_value()) return absl::CancelledError("the request was cancelled");
  ASSIGN_OR_RETURN(auto pictures, pipeline_->Start(*std::move(whole), purpose));
  buckets_->SetOutcome(size, absl::OkStatus());
  loop_.Begin(job, std::move(pictures));
  return absl::OkStatus();
}

// A graph at a time, since the client may go meanwhile.
absl::StatusOr<LocalEngine::Executables> LocalEngine::GetAll(const Job& job,
                                                             const GraphHandles& graphs,
                                                             const compiler::Purpose& purpose) {
  Executables executables;
  for (const compiler::GraphHandle& graph : graphs) {
    if (!loop_.IsWanted(job.handle)) return absl::CancelledError("the request was cancelled");
    ASSIGN_OR_RETURN(executables.emplace_back(), stores_.graphs.Get(graph, purpose));
  }
  return executables;
}

// What can be refused is refused as early as possible: before the next graph is planned. What was
// planned stays in memory for GetAll, or leaves with the graphs' handles.
absl::Status LocalEngine::CheckColdFits(const ColdRequests::Begun& request,
                                        const GraphHandles& graphs,
                                        const compiler::Purpose& purpose) {
  const pipeline::PictureSpec& picture = request.job->spec.picture;
  const compiler::GraphLabel label = LabelOf(picture);
  RETURN_IF_ERROR(CheckNotRefused(picture, request.has_image));
  const auto check_room = [&](const backends::MemoryNeeds& needs) {
    return stores_.graphs.CheckRoom(label, needs, purpose.evict_unused_since);
  };
  RETURN_IF_ERROR(check_room({}));  // planning itself needs memory
  backends::MemoryNeeds together;
  MemoryTally tally;
  tally.AddState(pipeline_->StateBytes(*picture.executed_size, label.rows));
  for (const compiler::GraphHandle& graph : graphs) {
    if (!loop_.IsWanted(request.job->handle))
      return absl::CancelledError("the request was cancelled");
    if (stores_.graphs.Get(graph, {.mode = GetMode::kReady}).ok()) continue;
    const auto needs = stores_.graphs.Predict(graph);
    if (absl::IsResourceExhausted(needs.status())) return needs.status();
    if (!needs.ok()) continue;  // the request fails with it when its graphs are made ready
    AddTo(together, *needs);
    tally.Add(GraphStore::IdOf(graph), *needs);
    if (tally.prediction().total() <= budget_.bytes()) continue;
    refused_.Add(RefusedPicture(picture, request.has_image), tally.prediction().total());
    return TooLarge(*picture.executed_size, tally.prediction().total(), budget_.bytes());
  }
  return check_room(together);
}

absl::Status LocalEngine::CheckNotRefused(const pipeline::PictureSpec& resolved, bool image) const {
  if (buckets_->IsServed(*resolved.executed_size)) return absl::OkStatus();
  const auto refusal = refused_.Find(RefusedPicture(resolved, image));
  if (!refusal.has_value() || refusal->bytes <= budget_.bytes()) return absl::OkStatus();
  return TooLarge(*resolved.executed_size, refusal->bytes, budget_.bytes());
}

// What another process has compiled since is found by the next request. One look at a time waits,
// however many are refused.
void LocalEngine::LookAtDisk() {
  if (looks_at_disk_.exchange(true)) return;
  const absl::Status added = AddPreparing([this] {
    looks_at_disk_ = false;
    stores_.graphs.RefreshMetrics();
    ShowBuckets();
  });
  if (!added.ok()) looks_at_disk_ = false;
}

}  // namespace latentd::engine
