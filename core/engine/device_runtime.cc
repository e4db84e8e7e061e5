#include "core/engine/device_runtime.h"

#include <algorithm>
#include <map>
#include <string>
#include <utility>

#include "absl/strings/str_cat.h"
#include "absl/synchronization/mutex.h"
#include "core/backends/cpu/cpu_backend.h"
#include "core/backends/reference/reference_backend.h"
#include "core/base/errors/error_details.h"
#include "core/base/errors/status_macros.h"
#include "core/base/text/text.h"
#include "core/base/threads/threads.h"
#include "core/device/device_fault.h"
#include "core/engine/api/model_name.h"
#include "core/engine/api/threads_needed.h"
#include "core/engine/capabilities_of.h"
#include "core/engine/prepare/start_up.h"
#include "core/engine/requests/arrival.h"
#include "core/pipeline/spec/models/components.h"

namespace latentd::engine {
namespace {

using compiler::GetMode;

// Describes requests that a ready server refuses all the same; empty: none.
std::string RestrictionOf(const Config& config) {
  if (!pipeline::IsOff(config.components, "unet_base")) return "";
  return "unet_base is off (--components), so that only the refiner draws, from an image: requests "
         "without model refiner are refused";
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
    return !stage.steps.empty() && stage.steps.rbegin()->first < most;
  });
}

bool LacksSplitSteps(const pipeline::Request& request) {
  if (!request.plan->may_split()) return false;
  const auto lacks = [](const pipeline::Stage& stage) {
    return stage.network == nullptr || stage.advance == nullptr;
  };
  return std::any_of(request.stages.begin(), request.stages.end(), lacks);
}

}  // namespace

DeviceRuntime::DeviceRuntime(Config config, size_t device,
                             std::unique_ptr<backends::Backend> backend, Parts parts)
    : config_(WithDefaults(std::move(config))),
      device_(device),
      parts_(std::move(parts)),
      registry_(&parts_.registry),
      status_(parts_.board, device),
      backend_(std::move(backend)),
      stores_(
          config_, parts_.disk, *backend_, parts_.clock, registry_, stop_,
          [this](const auto& label, const auto& needs, const auto& leaves) {
            return memory_.CheckFits(label, needs, leaves);
          },
          [this](const absl::Status& fault) { parts_.loop.ReportFault(fault, device_); }),
      admission_(config_, models_, stores_.graphs, budget_),
      cold_({.models = models_,
             .graphs = stores_.graphs,
             .admission = admission_,
             .loop = parts_.loop,
             .preparer = preparer_,
             .clock = parts_.clock,
             .changed = [this] { ShowBuckets(); },
             .begun =
                 [this](const ModelBucket& bucket) {
                   if (models_.buckets->IsOnDemand(bucket)) shared_step_graphs_.LoadAgain(bucket);
                 }}),
      memory_({.stores = stores_,
               .loop = parts_.loop,
               .device = device,
               .label = parts_.label,
               .budget = budget_,
               .keeps_tensors = !config_.adapters.empty()}),
      preparer_(stores_.graphs, stop_, parts_.clock, [this] { BringThreads(); }),
      kept_(backend_->device(), preparer_, parts_.clock),
      shared_step_graphs_({.config = config_,
                           .models = models_,
                           .graphs = stores_.graphs,
                           .status = status_,
                           .kept = kept_,
                           .preparer = preparer_,
                           .clock = parts_.clock,
                           .stop = stop_}),
      watch_(registry_, config_.warn, [this] { ShowBuckets(); }),
      cache_watch_({.look = [this] { stores_.graphs.LookAtDisk(); },
                    .changed = [this] { ShowBuckets(); },
                    .clock = parts_.clock,
                    .registry = registry_}) {
  const pipeline::ModelTable models =
      pipeline::ModelTable::FromFlags(config_.base, config_.refiner, config_.models);
  registry_.Declare(metrics::Declared::kModels, models.Names());
  registry_.Declare(metrics::Declared::kDevices, {parts_.label});
  registry_.GetGauge(metrics::kBackendInfo, {backend_->Fingerprint()}).Set(1);
}

// The backend of one that is given up stays, with its libraries' handles: they would call the
// driver.
DeviceRuntime::~DeviceRuntime() {
  static auto* const kept = new std::vector<std::unique_ptr<backends::Backend>>;
  static absl::Mutex mutex;
  End();
  if (!given_up_) return;
  absl::MutexLock lock(&mutex);
  kept->push_back(std::move(backend_));
}

// ATen's first: the first time it sets the number to its own.
void DeviceRuntime::BringThreads() const {
  backends::reference::BringThreads();
  if (config_.backend == "cpu") backends::cpu::BringThreads(ComputingThreads(config_));
}

PictureLoop::Device DeviceRuntime::device() {
  return {backend_->device(),
          {.warn = config_.warn,
           .ask_lane_room = [this](const auto& lane) { return memory_.AskLaneRoom(lane); },
           .enqueue_late = !backend_->device().SharesHostMemory()},
          parts_.progress_label};
}

AdminDevice DeviceRuntime::admin() {
  return {.stores = stores_,
          .models = models_,
          .memory = memory_,
          .preparer = preparer_,
          .open = open_,
          .stop = stop_,
          .retired = retired_,
          .changed = [this] {
            ShowBuckets();
            cold_.TryAgain();
          }};
}

absl::StatusOr<int64_t> DeviceRuntime::ModelBytes() const {
  ASSIGN_OR_RETURN(const AvailableMemory available, backend_->device().Available());
  return MemoryBudget::BytesOf(config_.memory_bytes, available.bytes);
}

absl::Status DeviceRuntime::Load(const std::vector<pipeline::DeviceRoom>& devices) {
  absl::Status loaded = TryLoad(devices);
  if (device::IsFault(loaded)) parts_.loop.ReportFault(loaded, device_);
  return loaded;
}

absl::Status DeviceRuntime::TryLoad(const std::vector<pipeline::DeviceRoom>& devices) {
  StartUp start({.config = config_,
                 .clock = parts_.clock,
                 .registry = registry_,
                 .status = status_,
                 .stores = stores_,
                 .budget = budget_,
                 .preparer = preparer_,
                 .models = models_,
                 .adapters = parts_.adapters,
                 .devices = devices,
                 .device = device_,
                 .stop = stop_,
                 .loaded = [this] { OpenModels(); },
                 .show_buckets = [this](bool warmed) { ShowBuckets(warmed); }});
  RETURN_IF_ERROR(start.Run());
  shared_step_graphs_.Begin();
  if (config_.load_waits_for_shared_steps) FinishPreparing();
  return stop_ ? absl::CancelledError("stopped while preparing graphs") : absl::OkStatus();
}

void DeviceRuntime::OpenModels() {
  open_ = true;
  for (const ModelInfo& model : CapabilitiesOf(*models_.pipeline, config_, {}).models) {
    registry_
        .GetGauge(metrics::kModelInfo,
                  {model.component, NameOf(model), model.class_name, config_.backend})
        .Set(1);
  }
  watch_.Open(models_.pipeline->CheckpointFiles());
}

// The first is what happened; what comes after it follows from it.
void DeviceRuntime::ShowFault(const absl::Status& fault) {
  status_.Update([&](ServerStatus& status) {
    if (!status.device_fault.empty()) return;
    status.state = State::kFailed;
    status.device_fault = std::string(fault.message());
    status.reason = absl::StrCat("the device works no more in this process: ", fault.message());
  });
}

void DeviceRuntime::GiveUp() {
  given_up_ = true;
  if (parts_.give_up) parts_.give_up();
}

void DeviceRuntime::Retire() {
  stop_ = true;
  retired_ = true;
  registry_.Retire();
}

void DeviceRuntime::ShowBuckets(bool warmed) {
  // Asked within Update, so that what is newer is shown later.
  status_.Update([&](ServerStatus& status) {
    status.buckets.clear();
    std::vector<std::string> missing;
    const std::vector<BucketGraphs::BucketState> states = models_.buckets->BucketStates();
    ShowWarm(states);
    for (const BucketGraphs::BucketState& state : states) {
      const ServerStatus::Bucket& bucket = state.bucket;
      status.buckets.push_back(bucket);
      if (!state.configured) continue;
      if (bucket.ready) continue;
      missing.push_back(absl::StrCat(models_.buckets->NameOf(state.of), ": ", bucket.reason));
    }
    for (const std::string& path : watch_.edited()) {
      missing.push_back(absl::StrCat(path, " was changed while it is in use: restart the server"));
    }
    if (!warmed && status.state != State::kReady && status.state != State::kDegraded) return;
    status.state = missing.empty() ? State::kReady : State::kDegraded;
    status.reason = missing.empty() ? RestrictionOf(config_) : ListSome(missing, kMostNamed, "; ");
  });
}

void DeviceRuntime::RefreshMetrics() {
  if (retired_) return;
  memory_.Show(registry_);
  registry_.GetGauge(metrics::kLanes).Set(parts_.loop.lanes(device_));
  registry_.GetGauge(metrics::kLaneBytes).Set(static_cast<double>(parts_.loop.lane_bytes(device_)));
  if (!open_) return;
  stores_.graphs.RefreshMetrics();
  ShowWarm(models_.buckets->BucketStates());
}

void DeviceRuntime::CheckFiles() {
  if (retired_) return;
  watch_.CheckSoon();
  if (!open_) return;
  cold_.TryAgain();  // memory may have become free in other ways too
  if (stores_.disk != nullptr) cache_watch_.LookIfDue();
  ShowBuckets();  // graphs that have left memory meanwhile, even while the disk does not answer
}

void DeviceRuntime::ShowWarm(const std::vector<BucketGraphs::BucketState>& states) {
  std::map<std::string, bool> loaded;
  for (const BucketGraphs::BucketState& state : states) loaded[state.bucket.model] |= state.warm;
  const pipeline::ModelTable& table = models_.pipeline->table();
  for (const pipeline::ModelRow& model : table.rows()) {
    const bool is_loaded = loaded[table[model.leader].name];
    registry_.GetGauge(metrics::kModelLoaded, {model.name}).Set(is_loaded ? 1 : 0);
  }
  for (const BucketGraphs::BucketState& state : states) {
    if (!state.configured) continue;
    if (state.of.model != table.first().id) continue;
    // Others alone count, where they have the model.
    const bool is_warm = state.warm || (!table.first().is_placed && parts_.has_first_model());
    registry_.GetGauge(metrics::kBucketWarm, {SizeText(state.bucket.size)}).Set(is_warm ? 1 : 0);
  }
}

Capabilities DeviceRuntime::capabilities() const {
  return CapabilitiesOf(*models_.pipeline, config_, parts_.board.status().buckets);
}

std::vector<FieldViolation> DeviceRuntime::Validate(const GenerateSpec& spec) const {
  return GetFieldViolations(admission_.Resolve(spec).status());
}

void DeviceRuntime::Touch(const pipeline::Plan& plan, bool lacks_graphs) {
  const ModelBucket bucket = BucketOf(plan);
  models_.buckets->Touch(bucket);
  if (lacks_graphs && plan.adapters == 0) shared_step_graphs_.LoadAgain(bucket);
}

bool DeviceRuntime::LacksGraphs(const pipeline::Picture& picture) const {
  const pipeline::Request& request = *picture.request;
  const bool in_colors = request.preview == nullptr && request.plan->wants_tiny_vae();
  return in_colors || LacksSplitSteps(request) || BringsFewerRows(picture, *models_.pipeline);
}

absl::StatusOr<Job::Pictures> DeviceRuntime::Start(const GenerateSpec& spec,
                                                   const pipeline::SharedPlan& plan,
                                                   const pipeline::SharedInputs& inputs) {
  absl::StatusOr<Job::Pictures> pictures = TryStart(spec, plan, inputs);
  if (!device::IsFault(pictures.status())) return pictures;
  parts_.loop.ReportFault(pictures.status(), device_);
  return parts_.loop.FaultError();
}

absl::StatusOr<Job::Pictures> DeviceRuntime::TryStart(const GenerateSpec& spec,
                                                      const pipeline::SharedPlan& plan,
                                                      const pipeline::SharedInputs& inputs) {
  RETURN_IF_ERROR(admission_.CheckResponseBytes(spec, *plan));
  auto pictures = models_.pipeline->Start(plan, inputs, {.mode = GetMode::kReady});
  if (pictures.ok() || !IsCold(pictures.status())) return pictures;
  const absl::Status may_wait = admission_.CheckCold(*plan);
  // Another process may have compiled it: the next request may find it.
  if (absl::IsFailedPrecondition(may_wait) && stores_.disk != nullptr) cache_watch_.LookSoon();
  RETURN_IF_ERROR(may_wait);
  const absl::Duration slack = spec.deadline - parts_.clock.Monotonic();
  const absl::Status in_time =
      admission_.MayCompile(*plan) ? absl::OkStatus() : admission_.CheckLoadTime(*plan, slack);
  NoteRefused(*plan, in_time);
  RETURN_IF_ERROR(in_time);
  return Job::Pictures();
}

batching::Need DeviceRuntime::ColdNeed(const pipeline::SharedPlan& plan) const {
  batching::Need need = WaitingNeedOf(*models_.pipeline->Sketch(plan));
  need.ready = cold_.ReadyAt(*plan);
  return need;
}

// Loads the model for the next: the time may have been that of a cold disk.
void DeviceRuntime::NoteRefused(const pipeline::Plan& plan, const absl::Status& refusal) {
  if (plan.adapters != 0 || GetReason(refusal) != "PREDICTED_OVERRUN") return;
  shared_step_graphs_.LoadAgain(BucketOf(plan));
}

void DeviceRuntime::Stop() {
  stop_ = true;
  status_.Update([](ServerStatus& status) { status.state = State::kDraining; });
}

}  // namespace latentd::engine
