#include "core/engine/local_engine.h"

#include <malloc.h>

#include <algorithm>
#include <utility>

#include "absl/strings/str_cat.h"
#include "core/base/error_details.h"
#include "core/base/memory_limit.h"
#include "core/base/out_of_memory.h"
#include "core/base/status_macros.h"
#include "core/engine/cold_bucket.h"
#include "core/engine/memory_report.h"
#include "core/engine/reporting.h"
#include "core/engine/serving.h"

namespace latentd::engine {
namespace {

using compiler::GetMode;
using pipeline::BucketPolicy;

// Finished pictures may hold an eighth of the memory: that is 256 MiB from 2 GiB on.
int64_t ResultBytesOf(const Config& config) {
  constexpr int64_t kShare = 8;
  const int64_t available = MeasureAvailableMemory().bytes;
  const int64_t memory =
      config.memory_bytes > 0 ? std::min(config.memory_bytes, available) : available;
  return std::min(PictureLoop::Options().result_bytes, memory / kShare);
}

}  // namespace

LocalEngine::LocalEngine(Config config, std::unique_ptr<backends::Backend> backend,
                         const Clock& clock)
    : config_(std::move(config)),
      clock_(clock),
      board_(clock, registry_),
      backend_(std::move(backend)),
      stores_(config_, *backend_, clock, registry_, stop_,
              [this](const auto& label, const auto& needs, const auto& leaves) {
                return CheckFits(label, needs, leaves);
              }),
      loop_({.queue_capacity = config_.queue_capacity, .result_bytes = ResultBytesOf(config_)},
            backend_->device(), metrics_, clock),
      refused_(/*grows=*/!config_.vae_tiling_above.has_value()),
      warming_(stores_.graphs, preparing_, stop_, clock),
      admin_({.stores = stores_,
              .budget = budget_,
              .loop = loop_,
              .cold = cold_,
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
                                    const backends::MemoryNeeds& needs,
                                    const compiler::Eviction& leaves) {
  MemoryReport report;
  report.weight_bytes = static_cast<int64_t>(stores_.weights.bytes_held());
  AddGraphs(stores_.graphs.totals(), report);
  AddPictures(loop_, cold_, report);
  report.available_bytes = MeasureAvailableMemory().bytes;
  // What fits with none of its weights held fits; only else is it worth finding out which are.
  absl::Status fits = budget_.Check(label, needs, {}, report, report.available_bytes);
  if (fits.ok()) return fits;
  // malloc keeps what was freed, and the system counts it as used.
  malloc_trim(0);
  report.available_bytes = MeasureAvailableMemory().bytes;
  const std::vector<weights::WeightInfo> held = stores_.weights.List();
  TakeAway(leaves, needs, held, report);
  return budget_.Check(label, needs, held, report, report.available_bytes);
}

Capabilities LocalEngine::capabilities() const {
  return CapabilitiesOf(*pipeline_, config_, board_.status().buckets);
}

std::vector<FieldViolation> LocalEngine::Validate(const GenerateSpec& spec) const {
  return GetFieldViolations(Resolve(spec.picture, spec.output).status());
}

// Every default filled in, and the bucket chosen.
absl::StatusOr<pipeline::PictureSpec> LocalEngine::Resolve(
    pipeline::PictureSpec picture, const image::EncodeOptions& output) const {
  absl::StatusOr<pipeline::PictureSpec> resolved = pipeline_->Resolve(std::move(picture));
  std::vector<FieldViolation> violations = GetFieldViolations(resolved.status());
  if (!resolved.ok() && violations.empty()) return resolved.status();
  const int quality = output.quality;
  if (quality < 1 || quality > 100) {
    violations.push_back({"output.quality", absl::StrCat("must be 1 to 100, is ", quality)});
  }
  if (!violations.empty()) return InvalidFields(violations);
  ASSIGN_OR_RETURN(resolved->executed_size, buckets_->Choose({*resolved->width, *resolved->height},
                                                             resolved->bucket_policy));
  return resolved;
}

absl::StatusOr<uint64_t> LocalEngine::Submit(GenerateSpec spec, std::shared_ptr<EventSink> sink) {
  absl::StatusOr<uint64_t> handle =
      CatchOutOfMemory([&] { return TrySubmit(std::move(spec), std::move(sink)); });
  if (!handle.ok()) metrics_.Rejected(handle.status());
  return handle;
}

absl::StatusOr<uint64_t> LocalEngine::TrySubmit(GenerateSpec spec,
                                                std::shared_ptr<EventSink> sink) {
  RETURN_IF_ERROR(CheckServing(board_.state()));
  // Its init image may be large, and is moved from here to the pictures.
  std::string image = std::exchange(spec.picture.image, {});
  const pipeline::PictureSpec asked = spec.picture;
  spec.picture.image = std::move(image);
  ASSIGN_OR_RETURN(pipeline::PictureSpec picture, Resolve(std::move(spec.picture), spec.output));
  std::vector<std::string> warnings = pipeline_->UnusedParameters(asked, picture);
  const size_t image_bytes = picture.image.size();
  image = std::exchange(picture.image, {});
  spec.picture = picture;
  picture.image = std::move(image);
  RETURN_IF_ERROR(CheckResponseBytes(spec));
  auto pictures =
      CatchOutOfMemory([&] { return pipeline_->TryStart(picture, {.mode = GetMode::kReady}); });
  if (!pictures.ok() && !IsCold(pictures.status())) return pictures.status();
  if (!pictures.ok()) RETURN_IF_ERROR(CheckPreparable(picture));
  const auto job = std::make_shared<Job>(loop_.NextHandle(), *pipeline_, std::move(spec),
                                         std::move(sink), clock_.Monotonic());
  job->warnings = std::move(warnings);
  if (pictures.ok()) job->pictures = *std::move(pictures);
  const bool adjusted = *job->spec.picture.executed_size !=
                        pipeline::Size{*job->spec.picture.width, *job->spec.picture.height};
  const bool cold = job->pictures.empty();
  RETURN_IF_ERROR(loop_.Admit(job, image_bytes));
  if (adjusted) metrics_.Adjusted(job->spec.picture.bucket_policy);
  if (!cold) {
    buckets_->Touch(*job->spec.picture.executed_size);
  } else if (!AddCold(job, std::move(picture)).ok()) {
    loop_.Abandon(job->handle);
  }
  return job->handle;
}

// The loop ends the request between two units; what is held for it goes now.
void LocalEngine::Cancel(uint64_t handle) {
  cold_.Remove(handle);
  loop_.Cancel(handle);
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

// Of a bucket that did not fit the last time: whether it does now, evicting what is idle.
absl::Status LocalEngine::CheckRoom(pipeline::Size bucket) {
  absl::Status failure = buckets_->MemoryFailure(bucket);
  if (failure.ok()) return failure;
  ASSIGN_OR_RETURN(const GraphHandles graphs, buckets_->GraphsOf(bucket));
  const uint64_t now = stores_.graphs.MarkWanted(graphs);
  for (const compiler::GraphHandle& graph : graphs) {
    RETURN_IF_ERROR(stores_.graphs.CheckRoom(graph, now));
  }
  return absl::OkStatus();
}

// OK: what is not ready can be loaded, or may be compiled. Builds nothing and asks no disk: client
// threads wait for this.
absl::Status LocalEngine::CheckPreparable(const pipeline::PictureSpec& resolved) {
  RETURN_IF_ERROR(CheckRoom(*resolved.executed_size));
  const bool may_compile =
      resolved.bucket_policy == BucketPolicy::kColdOk && !config_.forbid_compile_after_ready;
  if (may_compile) return CheckNotRefused(resolved, !resolved.image.empty());
  const absl::Status compiled = buckets_->CheckKnownCompiled(resolved);
  if (compiled.ok()) return compiled;
  LookAtDisk();
  return ColdBucket(resolved, compiled);
}

}  // namespace latentd::engine
