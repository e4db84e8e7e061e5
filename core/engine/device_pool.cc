#include "core/engine/device_pool.h"

#include <algorithm>
#include <iterator>
#include <numeric>
#include <utility>

#include "absl/algorithm/container.h"
#include "absl/memory/memory.h"
#include "absl/strings/str_cat.h"
#include "core/base/error_details.h"
#include "core/base/out_of_memory.h"
#include "core/base/split_work.h"
#include "core/base/status_macros.h"
#include "core/engine/pool_reports.h"
#include "core/engine/serving.h"

namespace latentd::engine {
namespace {

using AfterRefusal = LocalEngine::AfterRefusal;

// All load the same checkpoints: the first says what of them is ignored.
Config ConfigOf(const Config& config, const std::string& device, bool is_first) {
  Config own = config;
  own.warns_of_checkpoints = is_first;
  if (!config.warn) return own;
  own.warn = [warn = config.warn, device](absl::string_view what) {
    warn(absl::StrCat(device, ": ", what));
  };
  return own;
}

// Delay of a refusal; the longest where waiting does not help.
absl::Duration DelayOf(const absl::Status& refusal) {
  return GetRetryDelay(refusal).value_or(absl::InfiniteDuration());
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

}  // namespace

absl::StatusOr<std::unique_ptr<DevicePool>> DevicePool::Create(const Config& config,
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
  return absl::WrapUnique(new DevicePool(config, std::move(devices), clock));
}

DevicePool::DevicePool(const Config& config, std::vector<Device> devices, const Clock& clock)
    : clock_(clock), board_(clock, registry_), disk_(OpenDiskCache(config, clock, registry_)) {
  std::vector<PoolGraphAdmin::Device> graphs;
  for (Device& device : devices) {
    names_.push_back(DeviceName(device.ordinal));
    engines_.push_back(std::make_unique<LocalEngine>(
        ConfigOf(config, names_.back(), engines_.empty()), std::move(device.backend), clock,
        SharedParts{registry_, disk_}));
    graphs.push_back({names_.back(), engines_.back()->graphs()});
  }
  admin_.emplace(std::move(graphs));
  for (const auto& engine : engines_) {
    engine->OnStatusChange([this](const ServerStatus&) { ShowStatus(); });
  }
}

DevicePool::~DevicePool() { Drain(clock_.Monotonic()); }

void DevicePool::ShowStatus() {
  // Asked within Update, so that what is newer is shown later.
  board_.Update([this](ServerStatus& all) {
    std::vector<ServerStatus> statuses;
    for (const auto& engine : engines_) statuses.push_back(engine->status());
    MergeStatus(names_, statuses, all);
  });
}

void DevicePool::OnEach(const std::function<void(size_t device)>& call) {
  const auto count = static_cast<int>(engines_.size());
  SplitWorkOn(count, count, [&](int device) { call(static_cast<size_t>(device)); });
}

absl::Status DevicePool::Load() {
  std::vector<absl::Status> loaded(engines_.size());
  OnEach([&](size_t device) { loaded[device] = LoadDevice(device); });
  return FirstFailure(loaded);
}

absl::Status DevicePool::LoadDevice(size_t device) {
  const absl::Status loaded = engines_[device]->Load();
  if (loaded.ok() || absl::IsCancelled(loaded)) return loaded;
  for (const auto& other : engines_) {
    if (other != engines_[device]) other->Drain(clock_.Monotonic());
  }
  return OfDevice(names_[device], loaded);
}

void DevicePool::RefreshMetrics() {
  for (const auto& engine : engines_) engine->RefreshMetrics();
}

void DevicePool::CheckFiles() {
  for (const auto& engine : engines_) engine->CheckFiles();
}

void DevicePool::GiveBackMemory() {
  for (const auto& engine : engines_) engine->GiveBackMemory();
}

Capabilities DevicePool::capabilities() const {
  Capabilities capabilities = engines_.front()->capabilities();
  capabilities.queue_capacity *= static_cast<int>(engines_.size());
  capabilities.buckets = board_.status().buckets;
  return capabilities;
}

std::vector<FieldViolation> DevicePool::Validate(const GenerateSpec& spec) const {
  return engines_.front()->Validate(spec);
}

std::vector<size_t> DevicePool::FreeFirst() const {
  std::vector<batching::Backlog> backlogs;
  for (const auto& engine : engines_) backlogs.push_back(engine->backlog());
  const bool known = std::all_of(backlogs.begin(), backlogs.end(),
                                 [](const batching::Backlog& one) { return one.known; });
  std::vector<size_t> order(engines_.size());
  std::iota(order.begin(), order.end(), size_t{0});
  std::stable_sort(order.begin(), order.end(), [&](size_t a, size_t b) {
    if (known && backlogs[a].ends != backlogs[b].ends) return backlogs[a].ends < backlogs[b].ends;
    return backlogs[a].pictures < backlogs[b].pictures;
  });
  return order;
}

absl::StatusOr<uint64_t> DevicePool::Submit(GenerateSpec spec, std::shared_ptr<EventSink> sink) {
  absl::StatusOr<uint64_t> handle = CatchOutOfMemory([&] { return Place(std::move(spec), sink); });
  if (!handle.ok()) requests_.Refused(RejectionOf(handle.status()));
  return handle;
}

// The device that would take it first tells when: it is asked again, and keeps room.
absl::StatusOr<uint64_t> DevicePool::Place(GenerateSpec spec,
                                           const std::shared_ptr<EventSink>& sink) {
  RETURN_IF_ERROR(CheckServing(board_.status()));
  absl::MutexLock lock(&placing_);
  const std::vector<size_t> order = FreeFirst();
  size_t last = order.front();
  absl::Duration least;
  for (size_t device : order) {
    absl::StatusOr<uint64_t> handle = Ask(device, spec, sink, AfterRefusal::kAsksElsewhere);
    if (handle.ok() || !GetFieldViolations(handle.status()).empty()) return handle;
    const absl::Duration delay = DelayOf(handle.status());
    if (device != order.front() && delay >= least) continue;
    last = device;
    least = delay;
  }
  return Ask(last, std::move(spec), sink, AfterRefusal::kComesBack);
}

// Its own handles, each followed by those of the other devices.
absl::StatusOr<uint64_t> DevicePool::Ask(size_t device, GenerateSpec spec,
                                         std::shared_ptr<EventSink> sink, AfterRefusal refused) {
  ASSIGN_OR_RETURN(const uint64_t handle,
                   engines_[device]->Admit(std::move(spec), std::move(sink), refused));
  return handle * engines_.size() + device;
}

void DevicePool::Cancel(uint64_t handle) {
  engines_[handle % engines_.size()]->Cancel(handle / engines_.size());
}

Hangs DevicePool::FindHangs() const {
  Hangs all;
  for (const auto& engine : engines_) {
    Hangs one = engine->FindHangs();
    if (!all.unit.has_value()) all.unit = std::move(one.unit);
    absl::c_copy(one.threads, std::back_inserter(all.threads));
  }
  return all;
}

bool DevicePool::WaitsForReaders() const {
  return absl::c_any_of(engines_, [](const auto& engine) { return engine->WaitsForReaders(); });
}

void DevicePool::Drain(absl::Time deadline) {
  board_.Update([](ServerStatus& status) { status.state = State::kDraining; });
  OnEach([&](size_t device) { engines_[device]->Drain(deadline); });
}

}  // namespace latentd::engine
