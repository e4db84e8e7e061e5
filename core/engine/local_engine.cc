#include "core/engine/local_engine.h"

#include <cstdlib>
#include <new>
#include <utility>

#include "absl/strings/str_cat.h"
#include "core/backends/reference/evaluate.h"
#include "core/base/status_macros.h"
#include "core/engine/reporting.h"
#include "core/pipeline/loading.h"

namespace latentd::engine {
namespace {

// How long a client should wait before it asks again while the server starts or stops.
constexpr absl::Duration kRetryWhileLoading = absl::Seconds(2);
constexpr absl::Duration kRetryWhileDraining = absl::Seconds(5);

batching::Need NeedOf(const pipeline::Picture& picture) {
  static constexpr batching::UnitKind kKinds[] = {
      batching::UnitKind::kText, batching::UnitKind::kEncode, batching::UnitKind::kStep,
      batching::UnitKind::kDecode};
  return {kKinds[static_cast<int>(picture.next)], picture.lane(), picture.rows()};
}

absl::Status Unavailable(absl::string_view message, absl::string_view reason,
                         absl::Duration delay) {
  return WithRetryDelay(WithReason(absl::UnavailableError(message), reason), delay);
}

}  // namespace

LocalEngine::LocalEngine(Config config, std::unique_ptr<backends::Backend> backend,
                         const Clock& clock)
    : config_(std::move(config)),
      clock_(clock),
      backend_(std::move(backend)),
      weights_(backends::reference::EvaluateRecipe),
      graphs_(*backend_, clock),
      queue_({.pictures = config_.queue_capacity}, clock),
      loop_([this] { RunLoop(); }) {}

LocalEngine::~LocalEngine() {
  Drain(clock_.Monotonic());
  {
    absl::MutexLock lock(&mutex_);
    stop_ = true;
  }
  loop_.join();
}

absl::Status LocalEngine::Load() {
  absl::Status loaded = LoadModels();
  absl::MutexLock lock(&mutex_);
  if (state_ == State::kDraining) return absl::CancelledError("stopped while loading");
  state_ = loaded.ok() ? State::kReady : State::kFailed;
  return loaded;
}

absl::Status LocalEngine::LoadModels() {
  const pipeline::LoadOptions options{.base = config_.base,
                                      .refiner = config_.refiner,
                                      .variant = config_.variant,
                                      .memory_bytes = config_.memory_bytes,
                                      .give_up = &give_up_loading_};
  ASSIGN_OR_RETURN(pipeline_, pipeline::LoadPipeline(options, weights_, graphs_));
  return absl::OkStatus();
}

State LocalEngine::state() const {
  absl::MutexLock lock(&mutex_);
  return state_;
}

ServerStatus LocalEngine::status() const { return {.state = state()}; }

void LocalEngine::OnStatusChange(std::function<void()>) {}

GraphAdmin& LocalEngine::graphs() { std::abort(); }  // until GraphStore has tiers

Capabilities LocalEngine::capabilities() const { return CapabilitiesOf(*pipeline_, config_); }

std::vector<FieldViolation> LocalEngine::Validate(const GenerateSpec& spec) const {
  std::vector<FieldViolation> violations =
      GetFieldViolations(pipeline_->Resolve(spec.picture).status());
  const int quality = spec.output.quality;
  if (quality < 1 || quality > 100) {
    violations.push_back({"output.quality", absl::StrCat("must be 1 to 100, is ", quality)});
  }
  return violations;
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

absl::Status LocalEngine::Refusal() const {
  switch (state_) {
    case State::kReady:
    case State::kDegraded:
      return absl::OkStatus();
    case State::kLoading:
    case State::kWarming:
      return Unavailable("models are still being loaded", "LOADING", kRetryWhileLoading);
    case State::kDraining:
      return Unavailable("the server is shutting down", "DRAINING", kRetryWhileDraining);
    case State::kFailed:
      return Unavailable("the models could not be loaded", "LOAD_FAILED", kRetryWhileDraining);
  }
  return absl::InternalError("unknown state");
}

absl::StatusOr<uint64_t> LocalEngine::Submit(GenerateSpec spec, std::shared_ptr<EventSink> sink) {
  uint64_t handle = 0;
  {
    absl::MutexLock lock(&mutex_);
    RETURN_IF_ERROR(Refusal());
    handle = next_id_++;
  }
  if (const auto violations = Validate(spec); !violations.empty()) {
    return InvalidFields(violations);
  }
  ASSIGN_OR_RETURN(spec.picture, pipeline_->Resolve(std::move(spec.picture)));
  RETURN_IF_ERROR(CheckResponseBytes(spec));
  const size_t image_bytes = spec.picture.image.size();
  ASSIGN_OR_RETURN(auto pictures, pipeline_->Start(spec.picture));
  spec.picture.image = std::string();  // the pictures have it
  const auto job = std::make_shared<Job>(handle, std::move(spec), std::move(sink),
                                         std::move(pictures), clock_.Monotonic());
  // Held until Queued is out: the loop may take the job at once.
  absl::MutexLock publishing(&job->publishing());
  int position = 0;
  RETURN_IF_ERROR(Admit(job, image_bytes, position));
  job->PublishLocked(Queued{job->spec.request_id, position});
  return handle;
}

absl::Status LocalEngine::Admit(const std::shared_ptr<Job>& job, size_t image_bytes,
                                int& position) {
  absl::MutexLock lock(&mutex_);
  RETURN_IF_ERROR(Refusal());
  for (size_t i = 0; i < job->pictures.size(); ++i) job->ids.push_back(next_id_++);
  position = queue_.size();
  RETURN_IF_ERROR(queue_.Admit(job->ids, NeedOf(*job->pictures.front()), image_bytes));
  for (size_t i = 0; i < job->ids.size(); ++i) places_[job->ids[i]] = {job, static_cast<int>(i)};
  jobs_[job->handle] = job;
  return absl::OkStatus();
}

void LocalEngine::Cancel(uint64_t handle) {
  absl::MutexLock lock(&mutex_);
  cancelled_.push_back(handle);
}

void LocalEngine::Drain(absl::Time deadline) {
  give_up_loading_ = true;
  absl::MutexLock lock(&mutex_);
  state_ = State::kDraining;
  const auto idle = [this]() ABSL_EXCLUSIVE_LOCKS_REQUIRED(mutex_) { return jobs_.empty(); };
  if (mutex_.AwaitWithTimeout(absl::Condition(&idle), deadline - clock_.Monotonic())) return;
  for (const auto& [handle, job] : jobs_) cancelled_.push_back(handle);
  mutex_.Await(absl::Condition(&idle));
}

bool LocalEngine::HasWork() const { return stop_ || !cancelled_.empty() || queue_.size() > 0; }

void LocalEngine::RunLoop() {
  while (true) {
    std::vector<std::shared_ptr<Job>> cancelled;
    std::optional<batching::Unit> unit;
    Place place;
    {
      absl::MutexLock lock(&mutex_);
      mutex_.Await(absl::Condition(this, &LocalEngine::HasWork));
      cancelled = TakeCancelled();
      if (cancelled.empty() && stop_) return;
      if (cancelled.empty()) unit = queue_.Next();
      if (unit) place = places_.at(unit->pictures.front());
    }
    for (const auto& job : cancelled) Fail(*job, absl::CancelledError("cancelled by the client"));
    if (unit) RunUnit(place);
  }
}

std::vector<std::shared_ptr<Job>> LocalEngine::TakeCancelled() {
  std::vector<std::shared_ptr<Job>> jobs;
  for (uint64_t handle : std::exchange(cancelled_, {})) {
    if (const auto found = jobs_.find(handle); found != jobs_.end()) jobs.push_back(found->second);
  }
  return jobs;
}

void LocalEngine::RunUnit(const Place& place) {
  Job& job = *place.job;
  pipeline::Picture& picture = *job.pictures[place.index];
  const absl::Time begin = clock_.Monotonic();
  if (!std::exchange(job.started, true)) {
    job.timings.queue = begin - job.submitted;
    job.dropped_tokens = static_cast<int>(pipeline_->DroppedTokens(job.spec.picture));
    job.Publish(Started{picture.size()});
  }
  const Stage stage = StageOf(picture);
  absl::Status status;
  try {
    status = pipeline_->Run(picture);
  } catch (const std::bad_alloc&) {
    status = WithReason(absl::ResourceExhaustedError("out of memory"), "OUT_OF_MEMORY");
  }
  AddTime(job.timings, stage, clock_.Monotonic() - begin);
  if (!status.ok()) return Fail(job, std::move(status));
  job.Publish(Progress{place.index, stage, picture.steps_done, picture.total_steps()});
  Advance(place);
}

void LocalEngine::Advance(const Place& place) {
  pipeline::Picture& picture = *place.job->pictures[place.index];
  const batching::PictureId id = place.job->ids[place.index];
  if (picture.next == pipeline::UnitKind::kDone) return HandOver(place);
  absl::MutexLock lock(&mutex_);
  queue_.Update(id, NeedOf(picture));
}

void LocalEngine::HandOver(const Place& place) {
  const std::shared_ptr<Job> job = place.job;
  const int index = place.index;
  auto pixels = std::make_shared<const image::Image>(std::move(job->pictures[index]->pixels));
  const uint64_t seed = job->pictures[index]->seed;
  job->pictures[index].reset();
  {
    absl::MutexLock lock(&mutex_);
    queue_.Remove(job->ids[index]);
    places_.erase(job->ids[index]);
  }
  encoder_.Add([this, job, index, seed, pixels] {
    const absl::Time begin = clock_.Monotonic();
    absl::StatusOr<Image> image = EncodeImage(*job, index, seed, *pixels);
    job->timings.image_encode += clock_.Monotonic() - begin;
    if (!image.ok()) return Fail(*job, image.status());
    job->Publish(*std::move(image));
    if (--job->unfinished > 0) return;
    job->timings.total = clock_.Monotonic() - job->submitted;
    Forget(*job);
    job->Publish(CompletionOf(*job));
  });
}

void LocalEngine::Fail(Job& job, absl::Status status) {
  Forget(job);
  job.Publish(Failed{std::move(status)});
}

void LocalEngine::Forget(const Job& job) {
  absl::MutexLock lock(&mutex_);
  for (batching::PictureId id : job.ids) {
    if (places_.erase(id) > 0) queue_.Remove(id);
  }
  jobs_.erase(job.handle);
}

}  // namespace latentd::engine
