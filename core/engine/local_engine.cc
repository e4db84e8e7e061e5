#include "core/engine/local_engine.h"

#include <utility>

#include "absl/strings/str_cat.h"
#include "core/base/error_details.h"
#include "core/base/memory_limit.h"
#include "core/base/out_of_memory.h"
#include "core/base/status_macros.h"
#include "core/engine/memory_report.h"
#include "core/engine/reporting.h"

namespace latentd::engine {
namespace {

using compiler::Allow;
using pipeline::BucketPolicy;

// How long a client should wait before it asks again while the server starts or stops.
constexpr absl::Duration kRetryWhileLoading = absl::Seconds(2);
// By then a balancer sends elsewhere.
constexpr absl::Duration kRetryWhileDraining = absl::Seconds(1);

absl::Status Unavailable(absl::string_view message, absl::string_view reason,
                         absl::Duration delay) {
  return WithRetryDelay(WithReason(absl::UnavailableError(message), reason), delay);
}

batching::SizePolicy SizePolicyOf(BucketPolicy policy) {
  switch (policy) {
    case BucketPolicy::kExact:
      break;
    case BucketPolicy::kSnap:
      return batching::SizePolicy::kSnap;
    case BucketPolicy::kColdOk:
      return batching::SizePolicy::kColdOk;
  }
  return batching::SizePolicy::kExact;
}

bool IsCold(const absl::Status& status) {
  const std::string reason = GetReason(status);
  return reason == "GRAPH_COLD" || reason == "COMPILE_FORBIDDEN";
}

// What a request is told for whose size something would have to be compiled.
absl::Status ColdBucket(const pipeline::PictureSpec& picture, const absl::Status& why) {
  const bool would_compile = picture.bucket_policy == BucketPolicy::kColdOk;
  return WithReason(absl::FailedPreconditionError(absl::StrCat(
                        SizeText(*picture.executed_size), " is not ready",
                        would_compile ? ", and this server compiles nothing for requests: " : ": ",
                        why.message())),
                    would_compile ? "COMPILE_FORBIDDEN" : "BUCKET_COLD");
}

}  // namespace

LocalEngine::LocalEngine(Config config, std::unique_ptr<backends::Backend> backend,
                         const Clock& clock)
    : config_(std::move(config)),
      clock_(clock),
      board_(clock, registry_),
      backend_(std::move(backend)),
      stores_(config_, *backend_, clock, registry_,
              [this](const auto& label, const auto& needs) { return CheckFits(label, needs); }),
      loop_(config_.queue_capacity, metrics_, clock),
      warming_(stores_.graphs, preparing_, stop_, clock),
      admin_({.config = config_,
              .stores = stores_,
              .budget = budget_,
              .loop = loop_,
              .preparing = preparing_,
              .warming = warming_,
              .stop = stop_,
              .changed = [this] { ShowBuckets(); }}),
      watch_(registry_, config_.warn, [this] { ShowBuckets(); }) {
  registry_.GetGauge(metrics::kQueueCapacity).Set(config_.queue_capacity);
  registry_.GetGauge(metrics::kBackendInfo, {backend_->Fingerprint()}).Set(1);
}

LocalEngine::~LocalEngine() { Drain(clock_.Monotonic()); }

void LocalEngine::Drain(absl::Time deadline) {
  stop_ = true;
  board_.Update([](ServerStatus& status) { status.state = State::kDraining; });
  loop_.Drain(deadline);
}

absl::Status LocalEngine::CheckFits(const compiler::GraphLabel& label,
                                    const backends::MemoryNeeds& needs) {
  MemoryReport report;
  report.weight_bytes = static_cast<int64_t>(stores_.weights.bytes_held());
  AddGraphs(stores_.graphs.totals(), report);
  report.state_bytes = loop_.state_bytes();
  const int64_t available = MeasureAvailableMemory().bytes;
  // What fits with none of its weights held fits; only else is it worth finding out which are.
  absl::Status fits = budget_.Check(label, needs, {}, report, available);
  if (fits.ok()) return fits;
  return budget_.Check(label, needs, stores_.weights.List(), report, available);
}

Capabilities LocalEngine::capabilities() const {
  return CapabilitiesOf(*pipeline_, config_, board_.status().buckets);
}

absl::Status LocalEngine::Refusal() const {
  switch (board_.state()) {
    case State::kReady:
    case State::kDegraded:
      return absl::OkStatus();
    case State::kLoading:
      return Unavailable("models are still being loaded", "LOADING", kRetryWhileLoading);
    case State::kWarming:
      return Unavailable("graphs are still being prepared", "LOADING", kRetryWhileLoading);
    case State::kDraining:
      return Unavailable("the server is shutting down", "DRAINING", kRetryWhileDraining);
    case State::kFailed:
      return Unavailable("the models could not be loaded", "LOAD_FAILED", kRetryWhileDraining);
  }
  return absl::InternalError("unknown state");
}

std::vector<FieldViolation> LocalEngine::Validate(const GenerateSpec& spec) const {
  return GetFieldViolations(Resolve(spec).status());
}

// Every default filled in, and the bucket chosen.
absl::StatusOr<pipeline::PictureSpec> LocalEngine::Resolve(const GenerateSpec& spec) const {
  absl::StatusOr<pipeline::PictureSpec> resolved = pipeline_->Resolve(spec.picture);
  std::vector<FieldViolation> violations = GetFieldViolations(resolved.status());
  if (!resolved.ok() && violations.empty()) return resolved.status();
  const int quality = spec.output.quality;
  if (quality < 1 || quality > 100) {
    violations.push_back({"output.quality", absl::StrCat("must be 1 to 100, is ", quality)});
  }
  if (!violations.empty()) return InvalidFields(violations);
  ASSIGN_OR_RETURN(resolved->executed_size,
                   buckets_->Choose({*resolved->width, *resolved->height},
                                    SizePolicyOf(resolved->bucket_policy)));
  return resolved;
}

absl::StatusOr<uint64_t> LocalEngine::Submit(GenerateSpec spec, std::shared_ptr<EventSink> sink) {
  absl::StatusOr<uint64_t> handle = TrySubmit(std::move(spec), std::move(sink));
  if (!handle.ok()) metrics_.Rejected(handle.status());
  return handle;
}

absl::StatusOr<uint64_t> LocalEngine::TrySubmit(GenerateSpec spec,
                                                std::shared_ptr<EventSink> sink) {
  RETURN_IF_ERROR(Refusal());
  ASSIGN_OR_RETURN(pipeline::PictureSpec picture, Resolve(spec));
  const size_t image_bytes = picture.image.size();
  spec.picture = picture;
  spec.picture.image = std::string();  // the pictures have it
  RETURN_IF_ERROR(CheckResponseBytes(spec));
  auto pictures =
      CatchOutOfMemory([&] { return pipeline_->Start(picture, {.allow = Allow::kReady}); });
  if (!pictures.ok() && !IsCold(pictures.status())) return pictures.status();
  if (!pictures.ok()) RETURN_IF_ERROR(CheckPreparable(picture));
  const auto job = std::make_shared<Job>(loop_.NextHandle(), *pipeline_, std::move(spec),
                                         std::move(sink), clock_.Monotonic());
  if (pictures.ok()) {
    job->pictures = *std::move(pictures);
  } else {
    job->to_prepare = std::move(picture);
  }
  const bool adjusted = *job->spec.picture.executed_size !=
                        pipeline::Size{*job->spec.picture.width, *job->spec.picture.height};
  RETURN_IF_ERROR(loop_.Admit(job, image_bytes));
  if (adjusted) metrics_.Adjusted(job->spec.picture.bucket_policy);
  if (job->to_prepare.has_value()) preparing_.Add([this, job] { Prepare(job); });
  return job->handle;
}

absl::Status LocalEngine::CheckResponseBytes(const GenerateSpec& resolved) const {
  if (resolved.max_response_bytes <= 0) return absl::OkStatus();
  const pipeline::PictureSpec& picture = resolved.picture;
  const int64_t bytes = *picture.num_images_per_prompt *
                        MaxEncodedBytes({*picture.width, *picture.height}, resolved.output.format);
  if (bytes <= resolved.max_response_bytes) return absl::OkStatus();
  return WithReason(absl::InvalidArgumentError(absl::StrCat("the answer could have ", bytes,
                                                            " bytes of pictures, and may have ",
                                                            resolved.max_response_bytes)),
                    "RESPONSE_TOO_LARGE");
}

// OK: what is not ready can be loaded, or may be compiled.
absl::Status LocalEngine::CheckPreparable(const pipeline::PictureSpec& resolved) const {
  RETURN_IF_ERROR(buckets_->MemoryFailure(*resolved.executed_size));
  const bool may_compile =
      resolved.bucket_policy == BucketPolicy::kColdOk && !config_.forbid_compile_after_ready;
  if (may_compile) return absl::OkStatus();
  ASSIGN_OR_RETURN(const GraphRefs graphs, buckets_->GraphsFor(resolved));
  absl::Status compiled = buckets_->CheckCompiled(graphs);
  if (compiled.ok()) return compiled;
  return ColdBucket(resolved, compiled);
}

void LocalEngine::Prepare(const std::shared_ptr<Job>& job) {
  if (!loop_.IsWanted(job->handle)) return;
  const absl::Status started = CatchOutOfMemory([&] { return StartPrepared(*job); });
  if (!started.ok()) {
    loop_.Fail(*job, IsCold(started) ? ColdBucket(job->spec.picture, started) : started);
  }
  ShowBuckets();
}

// A graph at a time, since the client may go meanwhile.
absl::Status LocalEngine::StartPrepared(Job& job) {
  pipeline::PictureSpec picture = *std::exchange(job.to_prepare, std::nullopt);
  const pipeline::Size bucket = *picture.executed_size;
  const bool may_compile = picture.bucket_policy == BucketPolicy::kColdOk;
  const compiler::Purpose purpose{may_compile ? Allow::kCompile : Allow::kLoad, "cold_request"};
  ASSIGN_OR_RETURN(const GraphRefs graphs, buckets_->GraphsFor(picture));
  // Held, so that none leaves before all are there.
  std::vector<compiler::GraphStore::ExecutablePointer> executables;
  for (const compiler::GraphStore::GraphRef& graph : graphs) {
    if (!loop_.IsWanted(job.handle)) return absl::CancelledError("nobody waits for it");
    ASSIGN_OR_RETURN(executables.emplace_back(), stores_.graphs.Get(graph, purpose));
  }
  ASSIGN_OR_RETURN(auto pictures, pipeline_->Start(std::move(picture), purpose));
  buckets_->SetOutcome(bucket, absl::OkStatus());
  loop_.Begin(job, std::move(pictures));
  return absl::OkStatus();
}

}  // namespace latentd::engine
