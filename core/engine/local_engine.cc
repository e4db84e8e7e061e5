#include "core/engine/local_engine.h"

#include <algorithm>
#include <numeric>
#include <utility>

#include "absl/algorithm/container.h"
#include "absl/memory/memory.h"
#include "absl/strings/str_cat.h"
#include "core/adapters/catalogue/adapter_folder.h"
#include "core/base/errors/error_details.h"
#include "core/base/errors/out_of_memory.h"
#include "core/base/errors/status_macros.h"
#include "core/base/process/memory_limit.h"
#include "core/base/threads/split_work.h"
#include "core/base/threads/threads.h"
#include "core/engine/api/serving.h"
#include "core/engine/models/stores.h"
#include "core/engine/reports/device_reports.h"
#include "core/engine/requests/arrival.h"

namespace latentd::engine {
namespace {

std::vector<std::string> NamesOf(const std::vector<LocalEngine::Device>& devices) {
  if (devices.size() == 1) return {""};
  std::vector<std::string> names;
  for (const LocalEngine::Device& device : devices) {
    names.push_back(absl::StrCat("device ", device.ordinal));
  }
  return names;
}

std::vector<std::string> LabelsOf(const std::vector<LocalEngine::Device>& devices) {
  std::vector<std::string> labels;
  for (const LocalEngine::Device& device : devices) labels.push_back(absl::StrCat(device.ordinal));
  return labels;
}

std::vector<LocalEngine::Device> Only(std::unique_ptr<backends::Backend> backend) {
  std::vector<LocalEngine::Device> devices;
  devices.push_back({.backend = std::move(backend)});
  return devices;
}

// All load the same checkpoints: the first says what of them is ignored.
Config ConfigOf(const Config& config, const std::string& device, bool is_first) {
  Config own = config;
  own.warns_of_checkpoints = is_first;
  if (device.empty()) own.split = batching::Split::kNever;
  if (!config.warn || device.empty()) return own;
  own.warn = [warn = config.warn, device](absl::string_view what) {
    warn(absl::StrCat(device, ": ", what));
  };
  return own;
}

std::unique_ptr<adapters::Catalogue> CatalogueOf(const Config& config) {
  if (config.adapters.empty()) return nullptr;
  return std::make_unique<adapters::Catalogue>(adapters::FolderOnDisk(config.adapters));
}

// One thread encodes some eighty pictures of 1024x1024 a second. With a GPU more share the parts of
// one picture, of which a PNG of that size has eight, and are idle else; a CPU backend's own
// threads have better things to do.
int EncodersOf(const Config& config, int devices) {
  return config.backend == "cuda" ? std::clamp(UsableCpus() / 2, 1, 8 * devices) : 1;
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

template <typename Part, typename Runtimes>
std::vector<Part> PartsOf(const Runtimes& devices, Part (DeviceRuntime::*part)()) {
  std::vector<Part> parts;
  for (const auto& device : devices) parts.push_back((*device.*part)());
  return parts;
}

// Failure of the start: a device that was stopped since another failed is not the reason.
absl::Status FirstFailure(const std::vector<absl::Status>& loaded) {
  absl::Status first;
  for (const absl::Status& status : loaded) {
    if (!status.ok() && !absl::IsCancelled(status)) return status;
    first.Update(status);
  }
  return first;
}

// For steps that are split.
absl::Status MeetEachOther(const std::vector<LocalEngine::Device>& devices) {
  for (const LocalEngine::Device& one : devices) {
    for (const LocalEngine::Device& other : devices) {
      if (&one == &other) continue;
      RETURN_IF_ERROR(one.backend->device().Meet(other.backend->device()));
    }
  }
  return absl::OkStatus();
}

}  // namespace

absl::StatusOr<std::unique_ptr<LocalEngine>> LocalEngine::Create(const Config& config,
                                                                 std::vector<Device> devices,
                                                                 const Clock& clock) {
  const std::string first = devices.front().backend->Fingerprint();
  for (const Device& device : devices) {
    const std::string other = device.backend->Fingerprint();
    if (other == first) continue;
    return absl::InvalidArgumentError(absl::StrCat("devices ", devices.front().ordinal, " and ",
                                                   device.ordinal, " are not equal (", first, "; ",
                                                   other, "): start a server for each kind"));
  }
  if (config.split != batching::Split::kNever) RETURN_IF_ERROR(MeetEachOther(devices));
  return absl::WrapUnique(new LocalEngine(config, std::move(devices), clock));
}

LocalEngine::LocalEngine(const Config& config, std::unique_ptr<backends::Backend> backend,
                         const Clock& clock)
    : LocalEngine(config, Only(std::move(backend)), clock) {}

LocalEngine::LocalEngine(const Config& config, std::vector<Device> devices, const Clock& clock)
    : clock_(clock),
      names_(NamesOf(devices)),
      labels_(LabelsOf(devices)),
      board_(clock, registry_, names_),
      placement_(config.placement),
      catalogue_(CatalogueOf(config)),
      devices_(RuntimesOf(config, std::move(devices))),
      loop_(LoopOptions(config), PartsOf(devices_, &DeviceRuntime::device), metrics_, clock),
      admin_devices_(names_, PartsOf(devices_, &DeviceRuntime::admin)) {
  if (catalogue_ != nullptr) adapter_watch_.emplace(*catalogue_, clock_, config.warn);
  registry_.GetGauge(metrics::kQueueCapacity).Set(loop_.queue_capacity());
}

LocalEngine::Runtimes LocalEngine::RuntimesOf(const Config& config, std::vector<Device> devices) {
  const std::shared_ptr<cache::DiskCache> disk = OpenDiskCache(config, clock_, registry_);
  Runtimes runtimes;
  for (size_t i = 0; i < devices.size(); ++i) {
    runtimes.push_back(std::make_unique<DeviceRuntime>(
        ConfigOf(config, names_[i], /*is_first=*/i == 0), i, std::move(devices[i].backend),
        DeviceRuntime::Parts{.clock = clock_,
                             .registry = registry_,
                             .board = board_,
                             .disk = disk,
                             .loop = loop_,
                             .adapters = catalogue_.get(),
                             .label = labels_[i],
                             .progress_label = devices.size() > 1 ? labels_[i] : "",
                             .give_up = std::move(devices[i].give_up),
                             .has_first_model = [this] { return HasFirstModel(); }}));
  }
  return runtimes;
}

// Each device brings as much as it could take alone.
PictureLoop::Options LocalEngine::LoopOptions(const Config& config) {
  const auto count = static_cast<int>(devices_.size());
  const device::Device& first = devices_.front()->device().device;
  return {.queue = {.split = config.split,
                    .pictures = config.queue_capacity * count,
                    .wait = config.max_queue_time},
          .picture_bytes = PictureBytesOf(config, first) * count,
          .encoders = EncodersOf(config, count),
          .units = {.warn = config.warn},
          .begin_thread = [this] { devices_.front()->BringThreads(); },
          .on_device_fault = [this](const absl::Status& fault,
                                    size_t device) { OnDeviceFault(fault, device); }};
}

// It may be called with locks of the graph store: what it leads to is another thread's, but that
// the driver is called no more from here on. The caller goes on to let go of what the device had.
void LocalEngine::OnDeviceFault(const absl::Status& fault, size_t device) {
  const bool is_first = devices_[device]->Lose();
  if (!AllLost()) devices_[device]->GiveUp();
  devices_[device]->ShowFault(fault);
  if (!is_first) return;
  CatchOutOfMemory([&] { retiring_.Add([this, device] { Retire(device); }); }).IgnoreError();
}

bool LocalEngine::HasFirstModel() const {
  return absl::c_any_of(devices_, [](const auto& device) {
    return device->is_open() && !device->is_lost() && device->ModelFor({}).is_placed;
  });
}

bool LocalEngine::AllLost() const {
  return absl::c_all_of(devices_, [](const auto& device) { return device->is_lost(); });
}

// A last one stays as it is: the process is about to end.
void LocalEngine::Retire(size_t device) {
  if (ends_ || AllLost()) return;
  metrics_.DeviceFaulted(static_cast<int>(device));
  loop_.Lose(device);  // the thread that found it out may not have come to that yet
  MoveColdOf(device);  // before it is stopped: what is stopped ends otherwise
  devices_[device]->Retire();
  registry_.GetGauge(metrics::kQueueCapacity).Set(loop_.queue_capacity());
}

void LocalEngine::MoveColdOf(size_t device) {
  if (ends_) return;
  for (auto& [job, inputs] : devices_[device]->TakeCold()) {
    const absl::Status moved =
        CatchOutOfMemory([&, &job = job, &inputs = inputs] { MoveCold(job, std::move(inputs)); });
    if (!moved.ok()) loop_.Abandon(job->handle);
  }
}

void LocalEngine::MoveCold(const std::shared_ptr<Job>& job, pipeline::SharedInputs inputs) {
  for (const size_t device : CandidatesFor(job->spec)) {
    if (loop_.MoveTo(device, *job)) return devices_[device]->Prepare(job, std::move(inputs));
  }
  if (loop_.IsWanted(*job)) loop_.Reject(*job, DeviceLostError());
}

const DeviceRuntime& LocalEngine::First() const {
  for (const auto& device : devices_) {
    if (!device->is_lost()) return *device;
  }
  for (const auto& device : devices_) {
    if (device->is_open()) return *device;
  }
  return *devices_.front();
}

LocalEngine::~LocalEngine() {
  Drain(clock_.Monotonic());
  ends_ = true;
  retiring_.Flush();
  departures_->Disconnect();
  for (const auto& device : devices_) device->End();
}

void LocalEngine::OnEach(const std::function<void(size_t device)>& call) {
  const auto count = static_cast<int>(devices_.size());
  SplitWorkOn(count, count, [&](int device) { call(static_cast<size_t>(device)); });
}

absl::Status LocalEngine::Load() {
  const std::vector<pipeline::DeviceRoom> rooms = FindRooms();
  std::vector<absl::Status> loaded(devices_.size());
  OnEach([&](size_t device) { loaded[device] = LoadDevice(device, rooms); });
  for (size_t i = 0; i < devices_.size() && !AllLost(); ++i) {
    if (devices_[i]->is_lost()) loaded[i] = absl::OkStatus();
  }
  if (adapter_watch_) adapter_watch_->TellProblems();
  return FirstFailure(loaded);
}

// A device that cannot tell has no room; loading says why.
std::vector<pipeline::DeviceRoom> LocalEngine::FindRooms() const {
  std::vector<pipeline::DeviceRoom> rooms;
  if (placement_ == pipeline::Placement::kAll) return rooms;
  for (size_t i = 0; i < devices_.size(); ++i) {
    rooms.push_back({names_[i], devices_[i]->ModelBytes().value_or(0)});
  }
  return rooms;
}

absl::Status LocalEngine::LoadDevice(size_t device,
                                     const std::vector<pipeline::DeviceRoom>& rooms) {
  const absl::Status loaded = devices_[device]->Load(rooms);
  if (loaded.ok() || absl::IsCancelled(loaded)) return loaded;
  if (devices_[device]->is_lost()) return OfDevice(names_[device], loaded);
  for (const auto& other : devices_) {
    if (other != devices_[device]) other->Stop();
  }
  return OfDevice(names_[device], loaded);
}

void LocalEngine::FinishPreparing() {
  for (const auto& device : devices_) device->FinishPreparing();
}

void LocalEngine::RefreshMetrics() {
  metrics_.ShowHangs(FindHangs(), loop_.threads());
  for (size_t i = 0; i < devices_.size(); ++i) {
    devices_[i]->RefreshMetrics();
    const batching::Backlog backlog = loop_.backlog(i);
    metrics_.ShowBacklog(static_cast<int>(i), backlog.known ? backlog.ends : absl::ZeroDuration());
  }
}

void LocalEngine::CheckFiles() {
  for (const auto& device : devices_) device->CheckFiles();
  if (adapter_watch_) adapter_watch_->LookIfDue();
}

void LocalEngine::GiveBackMemory() {
  for (const auto& device : devices_) device->GiveBackMemory();
}

Capabilities LocalEngine::capabilities() const {
  Capabilities capabilities = First().capabilities();
  capabilities.queue_capacity = loop_.queue_capacity();
  return capabilities;
}

std::vector<FieldViolation> LocalEngine::Validate(const GenerateSpec& spec) const {
  return First().Validate(spec);
}

std::vector<size_t> LocalEngine::FreeFirst() const {
  if (devices_.size() == 1) return {0};
  std::vector<batching::Backlog> backlogs;
  for (size_t i = 0; i < devices_.size(); ++i) backlogs.push_back(loop_.backlog(i));
  std::vector<size_t> order;
  for (size_t i = 0; i < devices_.size(); ++i) {
    if (!devices_[i]->is_lost()) order.push_back(i);
  }
  const bool known = absl::c_all_of(order, [&](size_t device) { return backlogs[device].known; });
  absl::c_stable_sort(order, [&](size_t a, size_t b) {
    if (known && backlogs[a].ends != backlogs[b].ends) return backlogs[a].ends < backlogs[b].ends;
    return backlogs[a].pictures < backlogs[b].pictures;
  });
  return order;
}

absl::StatusOr<uint64_t> LocalEngine::Submit(GenerateSpec spec, std::shared_ptr<EventSink> sink) {
  // A border, where refusals are counted.
  absl::StatusOr<uint64_t> handle =
      CatchOutOfMemory([&] { return Admit(std::move(spec), std::move(sink)); });
  if (!handle.ok()) metrics_.requests().Refused(RejectionOf(handle.status()));
  return handle;
}

absl::StatusOr<uint64_t> LocalEngine::Admit(GenerateSpec spec, std::shared_ptr<EventSink> sink) {
  RETURN_IF_ERROR(CheckServing(board_.status()));
  ASSIGN_OR_RETURN(Offers offers, FindOffers(spec));
  const pipeline::SharedPlan plan = offers.plan;
  const Offer& first = offers.all.front();
  const uint64_t content = ContentOf(spec);
  spec.inputs = nullptr;
  const auto job = std::make_shared<Job>(loop_.NextHandle(), plan, std::move(spec), std::move(sink),
                                         clock_.Monotonic());
  job->content = content;
  job->device = first.device;
  job->devices = 0;
  for (const Offer& offer : offers.all) job->devices |= uint64_t{1} << offer.device;
  const bool cold = first.pictures.empty();
  job->presence = departures_->Expect();
  job->need =
      cold ? devices_[first.device]->ColdNeed(plan) : WaitingNeedOf(*first.pictures.front());
  const absl::Status admitted =
      loop_.Admit(job, offers.inputs == nullptr ? 0 : offers.inputs->bytes());
  if (cold) devices_[first.device]->NoteRefused(*plan, admitted);
  RETURN_IF_ERROR(admitted);
  // A border: from here on the request is the loop's, which says how it ends.
  const absl::Status begun = CatchOutOfMemory([&] {
    const pipeline::Size& executed = plan->executed_size;
    if (executed.width != *plan->spec.width || executed.height != *plan->spec.height) {
      metrics_.Adjusted(plan->spec.bucket_policy);
    }
    if (!cold) return Begin(*job, std::move(offers.all));
    devices_[first.device]->Prepare(job, std::move(offers.inputs));
    if (!devices_[first.device]->is_lost()) return;
    retiring_.Add([this, device = first.device] { MoveColdOf(device); });
  });
  if (!begun.ok()) loop_.Abandon(job->handle);
  return job->handle;
}

std::vector<size_t> LocalEngine::CandidatesFor(const GenerateSpec& spec) const {
  const auto last = [&](size_t device) {
    const pipeline::ModelRow& model = devices_[device]->ModelFor(spec.picture);
    return std::pair{model.is_on_demand(), !model.has_room};
  };
  std::vector<size_t> devices = FreeFirst();
  absl::c_stable_sort(devices, [&](size_t a, size_t b) { return last(a) < last(b); });
  return devices;
}

// A model is not loaded where it has to make room, if another device has it ready.
bool LocalEngine::AsksOthers(const pipeline::Plan& plan) const {
  return placement_ != pipeline::Placement::kAll || plan.adapters != 0 ||
         plan.stages.front().model->row().is_on_demand();
}

absl::StatusOr<LocalEngine::Offers> LocalEngine::FindOffers(const GenerateSpec& spec) {
  Offers offers;
  absl::Status refused;
  for (size_t device : CandidatesFor(spec)) {
    absl::StatusOr<Offer> offer = OfferOf(device, spec, offers);
    refused.Update(offer.status());
    if (!offer.ok()) continue;
    const bool is_ready = !offer->pictures.empty();
    if (is_ready && !offers.all.empty() && offers.all.front().pictures.empty()) offers.all.clear();
    if (is_ready || offers.all.empty()) offers.all.push_back(*std::move(offer));
    if (!is_ready && !AsksOthers(*offers.plan)) break;
  }
  if (offers.all.empty()) return refused.ok() ? DeviceFaultError() : refused;
  return offers;
}

absl::StatusOr<LocalEngine::Offer> LocalEngine::OfferOf(size_t device, const GenerateSpec& spec,
                                                        Offers& known) {
  DeviceRuntime& runtime = *devices_[device];
  Offer offer{.device = device};
  if (known.all.empty()) {
    ASSIGN_OR_RETURN(known.plan, runtime.Resolve(spec));
  }
  if (spec.inputs != nullptr && known.inputs == nullptr) {
    RETURN_IF_ERROR(CheckInputBytes(*spec.inputs));
    known.inputs = loop_.Count(spec.inputs);
  }
  ASSIGN_OR_RETURN(offer.pictures, runtime.Start(spec, known.plan, known.inputs));
  offer.lacks_graphs = !offer.pictures.empty() && runtime.LacksGraphs(*offer.pictures.front());
  return offer;
}

absl::Status LocalEngine::CheckInputBytes(const pipeline::Inputs& inputs) const {
  const int64_t most = loop_.most_input_bytes();
  const auto bytes = static_cast<int64_t>(inputs.bytes());
  if (bytes <= most) return absl::OkStatus();
  size_t controls = 0;
  for (const std::string& image : inputs.control_images) controls += image.size();
  const std::pair<size_t, const char*> largest = std::max(
      {std::pair{inputs.latents.size(), "latents"},
       std::pair{inputs.prompt.bytes(), "prompt_embeds"},
       std::pair{inputs.negative.bytes(), "negative_prompt_embeds"},
       std::pair{controls, "controls"}, std::pair{inputs.ip_adapter_bytes(), "ip_adapters"},
       std::pair{inputs.mask_image.size(), "mask_image"}, std::pair{inputs.image.size(), "image"}},
      [](const auto& a, const auto& b) { return a.first < b.first; });
  return InvalidFields(
      {{largest.second, absl::StrCat("must have at most ", most, " bytes, has ", bytes,
                                     ": a half of what this server holds for pictures")}});
}

void LocalEngine::Begin(Job& job, std::vector<Offer> offers) {
  std::vector<std::pair<size_t, Job::Pictures>> others;
  for (size_t i = 1; i < offers.size(); ++i) {
    others.emplace_back(offers[i].device, std::move(offers[i].pictures));
  }
  loop_.Begin(job, std::move(offers.front().pictures), std::move(others));
  for (const Offer& offer : offers) {
    devices_[offer.device]->Touch(*job.plan, offer.lacks_graphs);
  }
}

// The loop ends the request between two units; what is held for it goes now.
void LocalEngine::Cancel(uint64_t handle) {
  for (const auto& device : devices_) device->Forget(handle);
  loop_.Cancel(handle);
}

void LocalEngine::Drain(absl::Time deadline) {
  for (const auto& device : devices_) device->Stop();
  loop_.Drain(deadline);
}

}  // namespace latentd::engine
