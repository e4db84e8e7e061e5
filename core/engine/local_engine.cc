#include "core/engine/local_engine.h"

#include <algorithm>
#include <utility>

#include "absl/strings/str_cat.h"
#include "core/backends/cpu/cpu_backend.h"
#include "core/backends/reference/reference_backend.h"
#include "core/base/error_details.h"
#include "core/base/memory_limit.h"
#include "core/base/out_of_memory.h"
#include "core/base/status_macros.h"
#include "core/base/text.h"
#include "core/base/threads.h"
#include "core/device/device_fault.h"
#include "core/engine/arrival.h"
#include "core/engine/capabilities.h"
#include "core/engine/model_name.h"
#include "core/engine/serving.h"
#include "core/engine/start_up.h"
#include "core/engine/threads_needed.h"
#include "core/pipeline/spec/components.h"

namespace latentd::engine {
namespace {

using compiler::GetMode;

// One thread encodes some eighty pictures of 1024x1024 a second. With a GPU more share the parts of
// one picture, of which a PNG of that size has eight, and are idle else; a CPU backend's own
// threads have better things to do.
int EncodersOf(const Config& config) {
  return config.backend == "cuda" ? std::clamp(UsableCpus() / 2, 1, 8) : 1;
}

// An eighth of the host's memory: that is 512 MiB from 4 GiB on. A budget for a device with memory
// of its own says nothing of that.
int64_t PictureBytesOf(const Config& config, const device::Device& device) {
  constexpr int64_t kShare = 8;
  if (config.picture_memory_bytes > 0) return config.picture_memory_bytes;
  int64_t memory = MeasureAvailableMemory().bytes;
  if (config.memory_bytes > 0 && device.SharesHostMemory()) {
    memory = std::min(config.memory_bytes, memory);
  }
  return std::min(PictureLoop::Options().picture_bytes, memory / kShare);
}

// Describes requests that a ready server refuses all the same; empty: none.
std::string RestrictionOf(const Config& config) {
  if (!pipeline::IsOff(config.components, "unet_base")) return "";
  return "unet_base is off (--components), so that only the refiner draws, from an image: requests "
         "without model MODEL_REFINER are refused";
}

// Default row counts, worth their compilation and memory: a GPU evaluates more rows
// in little more time, and the reference backend in as much more.
std::vector<int> DefaultRows(const std::string& backend) {
  if (backend == "cuda") return {1, 2, 4, 8, 16};
  if (backend == "cpu") return {1, 2, 4};
  return {1, 2};
}

Config WithDefaults(Config config) {
  if (config.rows.empty()) config.rows = DefaultRows(config.backend);
  return config;
}

// True if some of its steps could have been shared in more rows.
bool BringsFewerRows(const pipeline::Picture& picture, const pipeline::Pipeline& pipeline) {
  const int most = pipeline.RowCountsAt(picture.executed_size()).back();
  const std::vector<pipeline::Stage>& stages = picture.request->stages;
  return std::any_of(stages.begin(), stages.end(), [&](const pipeline::Stage& stage) {
    return stage.steps.rbegin()->first < most;
  });
}

}  // namespace

LocalEngine::LocalEngine(Config config, std::unique_ptr<backends::Backend> backend,
                         const Clock& clock)
    : LocalEngine(std::move(config), std::move(backend), clock, /*shared=*/nullptr) {}

LocalEngine::LocalEngine(Config config, std::unique_ptr<backends::Backend> backend,
                         const Clock& clock, const SharedParts& shared)
    : LocalEngine(std::move(config), std::move(backend), clock, &shared) {}

LocalEngine::LocalEngine(Config config, std::unique_ptr<backends::Backend> backend,
                         const Clock& clock, const SharedParts* shared)
    : config_(WithDefaults(std::move(config))),
      clock_(clock),
      registry_(shared == nullptr ? nullptr : &shared->registry),
      board_(clock, registry_),
      backend_(std::move(backend)),
      stores_(
          config_, shared == nullptr ? OpenDiskCache(config_, clock, registry_) : shared->disk,
          *backend_, clock, registry_, stop_,
          [this](const auto& label, const auto& needs, const auto& leaves) {
            return memory_.CheckFits(label, needs, leaves);
          },
          [this](const absl::Status& fault) { EndForFault(fault); }),
      admission_(config_, models_, stores_.graphs, budget_),
      loop_({.queue = {.pictures = config_.queue_capacity, .wait = config_.max_queue_time},
             .picture_bytes = PictureBytesOf(config_, stores_.weights.device()),
             .encoders = EncodersOf(config_),
             .units = {.warn = config_.warn,
                       .ask_lane_room =
                           [this](const pipeline::LaneMemory& lane) {
                             return memory_.AskLaneRoom(lane);
                           },
                       .enqueue_late = !backend_->device().SharesHostMemory()},
             .begin_thread = [this] { BringThreads(); },
             .on_device_fault = [this](const absl::Status& fault) { ShowFault(fault); }},
            backend_->device(), metrics_, clock),
      cold_({.models = models_,
             .graphs = stores_.graphs,
             .admission = admission_,
             .loop = loop_,
             .preparer = preparer_,
             .changed = [this] { ShowBuckets(); }}),
      memory_({.stores = stores_, .loop = loop_, .budget = budget_}),
      preparer_(stores_.graphs, stop_, clock, [this] { BringThreads(); }),
      kept_(backend_->device(), preparer_, clock),
      shared_step_graphs_({.config = config_,
                           .models = models_,
                           .graphs = stores_.graphs,
                           .board = board_,
                           .kept = kept_,
                           .preparer = preparer_,
                           .clock = clock,
                           .stop = stop_}),
      admin_({.stores = stores_,
              .memory = memory_,
              .preparer = preparer_,
              .stop = stop_,
              .changed = [this] { ShowBuckets(); }}),
      watch_(registry_, config_.warn, [this] { ShowBuckets(); }),
      cache_watch_({.look = [this] { stores_.graphs.LookAtDisk(); },
                    .changed = [this] { ShowBuckets(); },
                    .clock = clock,
                    .registry = registry_}) {
  const pipeline::ModelTable models =
      pipeline::ModelTable::FromFlags(config_.base, config_.refiner);
  registry_.Declare(metrics::Declared::kModels, models.Names());
  registry_.GetGauge(metrics::kQueueCapacity).Set(config_.queue_capacity);
  registry_.GetGauge(metrics::kBackendInfo, {backend_->Fingerprint()}).Set(1);
}

// ATen's first: the first time it sets the number to its own.
void LocalEngine::BringThreads() const {
  backends::reference::BringThreads();
  if (config_.backend == "cpu") backends::cpu::BringThreads(ComputingThreads(config_));
}

// Stops the preparation before the objects that it reports to.
LocalEngine::~LocalEngine() {
  Drain(clock_.Monotonic());
  preparer_.Stop();
}

absl::Status LocalEngine::Load() {
  absl::Status loaded = TryLoad();
  if (device::IsFault(loaded)) EndForFault(loaded);
  return loaded;
}

absl::Status LocalEngine::TryLoad() {
  StartUp start({.config = config_,
                 .clock = clock_,
                 .registry = registry_,
                 .board = board_,
                 .stores = stores_,
                 .budget = budget_,
                 .preparer = preparer_,
                 .models = models_,
                 .stop = stop_,
                 .loaded = [this] { OpenModels(); },
                 .show_buckets = [this](bool warmed) { ShowBuckets(warmed); }});
  RETURN_IF_ERROR(start.Run());
  shared_step_graphs_.Begin();
  if (config_.load_waits_for_shared_steps) FinishPreparing();
  return stop_ ? absl::CancelledError("stopped while preparing graphs") : absl::OkStatus();
}

void LocalEngine::OpenModels() {
  admin_.Open(*models_.buckets);
  for (const ModelInfo& model : CapabilitiesOf(*models_.pipeline, config_, {}).models) {
    registry_
        .GetGauge(metrics::kModelInfo,
                  {model.component, NameOf(model), model.class_name, config_.backend})
        .Set(1);
  }
  watch_.Open(models_.pipeline->CheckpointFiles());
}

// The first is what happened; what comes after it follows from it.
void LocalEngine::ShowFault(const absl::Status& fault) {
  board_.Update([&](ServerStatus& status) {
    if (!status.device_fault.empty()) return;
    status.state = State::kFailed;
    status.device_fault = std::string(fault.message());
    status.reason = absl::StrCat("the device works no more in this process: ", fault.message());
  });
}

void LocalEngine::EndForFault(const absl::Status& fault) {
  ShowFault(fault);
  loop_.EndForFault();
}

void LocalEngine::ShowBuckets(bool warmed) {
  // Asked within Update, so that what is newer is shown later.
  board_.Update([&](ServerStatus& status) {
    status.buckets.clear();
    std::vector<std::string> missing;
    const std::vector<BucketGraphs::BucketState> states = models_.buckets->BucketStates();
    ShowWarm(states);
    for (const BucketGraphs::BucketState& state : states) {
      const ServerStatus::Bucket& bucket = state.bucket;
      status.buckets.push_back(bucket);
      if (!state.configured) continue;
      if (bucket.ready) continue;
      missing.push_back(absl::StrCat(SizeText(bucket.size), ": ", bucket.reason));
    }
    for (const std::string& path : watch_.edited()) {
      missing.push_back(absl::StrCat(path, " was changed while it is in use: restart the server"));
    }
    if (!warmed && status.state != State::kReady && status.state != State::kDegraded) return;
    status.state = missing.empty() ? State::kReady : State::kDegraded;
    status.reason = missing.empty() ? RestrictionOf(config_) : ListSome(missing, kMostNamed, "; ");
  });
}

void LocalEngine::RefreshMetrics() {
  memory_.Show(registry_);
  metrics_.ShowHangs(FindHangs(), loop_.threads());
  registry_.GetGauge(metrics::kLanes).Set(loop_.lanes());
  registry_.GetGauge(metrics::kLaneBytes).Set(static_cast<double>(loop_.lane_bytes()));
  if (!admin_.is_open()) return;
  stores_.graphs.RefreshMetrics();
  ShowWarm(models_.buckets->BucketStates());
}

void LocalEngine::CheckFiles() {
  watch_.CheckSoon();
  if (!admin_.is_open()) return;
  if (stores_.disk != nullptr) cache_watch_.LookIfDue();
  ShowBuckets();  // graphs that have left memory meanwhile, even while the disk does not answer
}

void LocalEngine::ShowWarm(const std::vector<BucketGraphs::BucketState>& states) {
  for (const BucketGraphs::BucketState& state : states) {
    if (!state.configured) continue;
    registry_.GetGauge(metrics::kBucketWarm, {SizeText(state.bucket.size)}).Set(state.warm ? 1 : 0);
  }
}

Capabilities LocalEngine::capabilities() const {
  return CapabilitiesOf(*models_.pipeline, config_, board_.status().buckets);
}

std::vector<FieldViolation> LocalEngine::Validate(const GenerateSpec& spec) const {
  return GetFieldViolations(admission_.Resolve(spec).status());
}

absl::StatusOr<uint64_t> LocalEngine::Submit(GenerateSpec spec, std::shared_ptr<EventSink> sink) {
  // A border, where refusals are counted.
  absl::StatusOr<uint64_t> handle = CatchOutOfMemory(
      [&] { return Admit(std::move(spec), std::move(sink), AfterRefusal::kComesBack); });
  if (!handle.ok()) metrics_.requests().Refused(RejectionOf(handle.status()));
  return handle;
}

void LocalEngine::CountAdjusted(const pipeline::Plan& plan) {
  if (plan.executed_size != pipeline::Size{*plan.spec.width, *plan.spec.height}) {
    metrics_.Adjusted(plan.spec.bucket_policy);
  }
}

absl::StatusOr<uint64_t> LocalEngine::Admit(GenerateSpec spec, std::shared_ptr<EventSink> sink,
                                            AfterRefusal refused) {
  RETURN_IF_ERROR(CheckServing(board_.status()));
  ASSIGN_OR_RETURN(const pipeline::SharedPlan plan, admission_.Resolve(spec));
  const uint64_t content = ContentOf(spec);
  pipeline::SharedInputs inputs = std::exchange(spec.inputs, nullptr);
  if (inputs != nullptr) RETURN_IF_ERROR(CheckInputBytes(*inputs));
  inputs = loop_.Count(std::move(inputs));
  const size_t input_bytes = inputs == nullptr ? 0 : inputs->bytes();
  RETURN_IF_ERROR(admission_.CheckResponseBytes(spec, *plan));
  ASSIGN_OR_RETURN(Pictures pictures, StartIfReady(plan, inputs));
  const auto job = std::make_shared<Job>(loop_.NextHandle(), plan, std::move(spec), std::move(sink),
                                         clock_.Monotonic());
  job->content = content;
  job->comes_back = refused == AfterRefusal::kComesBack;
  const bool cold = pictures.empty();
  if (!cold) job->need = WaitingNeedOf(*pictures.front());
  const bool lacks_some = !cold && LacksGraphs(*pictures.front());
  RETURN_IF_ERROR(loop_.Admit(job, input_bytes));
  // A border: from here on the request is the loop's, which says how it ends.
  const absl::Status begun = CatchOutOfMemory([&] {
    CountAdjusted(*plan);
    if (cold) return cold_.Add(job, std::move(inputs));
    loop_.Begin(*job, std::move(pictures));
    models_.buckets->Touch(plan->executed_size);
    if (lacks_some) shared_step_graphs_.LoadAgain(plan->executed_size);
  });
  if (!begun.ok()) loop_.Abandon(job->handle);
  return job->handle;
}

absl::Status LocalEngine::CheckInputBytes(const pipeline::Inputs& inputs) const {
  const int64_t most = loop_.most_input_bytes();
  const auto bytes = static_cast<int64_t>(inputs.bytes());
  if (bytes <= most) return absl::OkStatus();
  return InvalidFields({{inputs.image.empty() ? "latents" : "image",
                         absl::StrCat("must have at most ", most, " bytes, has ", bytes,
                                      ": a half of what this server holds for pictures")}});
}

// True if there are graphs that the picture could have used and that are not loaded.
bool LocalEngine::LacksGraphs(const pipeline::Picture& picture) const {
  const pipeline::Request& request = *picture.request;
  const bool in_colors = request.preview == nullptr && request.plan->wants_tiny_vae();
  return in_colors || BringsFewerRows(picture, *models_.pipeline);
}

// None where their graphs have to be made ready first, and may be.
absl::StatusOr<LocalEngine::Pictures> LocalEngine::StartIfReady(
    const pipeline::SharedPlan& plan, const pipeline::SharedInputs& inputs) {
  auto pictures = models_.pipeline->Start(plan, inputs, {.mode = GetMode::kReady});
  if (pictures.ok() || !IsCold(pictures.status())) return pictures;
  const absl::Status may_wait = admission_.CheckCold(*plan);
  // Another process may have compiled it: the next request may find it.
  if (absl::IsFailedPrecondition(may_wait) && stores_.disk != nullptr) cache_watch_.LookSoon();
  if (device::IsFault(may_wait)) return DeviceFaultError();
  RETURN_IF_ERROR(may_wait);
  return Pictures();
}

// The loop ends the request between two units; what is held for it goes now.
void LocalEngine::Cancel(uint64_t handle) {
  cold_.Remove(handle);
  loop_.Cancel(handle);
}

void LocalEngine::Drain(absl::Time deadline) {
  stop_ = true;
  board_.Update([](ServerStatus& status) { status.state = State::kDraining; });
  loop_.Drain(deadline);
}

}  // namespace latentd::engine
