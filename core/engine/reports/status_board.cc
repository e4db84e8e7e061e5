#include "core/engine/reports/status_board.h"

#include <set>
#include <utility>

#include "absl/algorithm/container.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/str_join.h"

namespace latentd::engine {
namespace {

// In the order of State.
constexpr const char* kStates[] = {"loading", "warming", "ready", "degraded", "draining", "failed"};

using Statuses = std::vector<ServerStatus>;

bool HasFailed(const ServerStatus& device) { return !device.device_fault.empty(); }

// Names and faults of the devices that have failed, with that between them.
std::string FaultsOf(const std::vector<std::string>& names, const Statuses& devices,
                     const char* between) {
  std::vector<std::string> faults;
  for (size_t i = 0; i < devices.size(); ++i) {
    if (!HasFailed(devices[i])) continue;
    faults.push_back(absl::StrCat(names[i], between, devices[i].device_fault));
  }
  return absl::StrJoin(faults, "; ");
}

// The others draw what would have been its images.
void AddFaults(const std::string& faults, ServerStatus& all) {
  const bool serves = all.state == State::kReady || all.state == State::kDegraded;
  if (faults.empty() || !serves) return;
  all.state = State::kDegraded;
  all.reason = absl::StrCat(faults, all.reason.empty() ? "" : "; ", all.reason);
}

std::vector<ServerStatus::Device> EachDevice(const std::vector<std::string>& names,
                                             const Statuses& devices) {
  std::vector<ServerStatus::Device> each;
  for (size_t i = 0; i < devices.size() && devices.size() > 1; ++i) {
    each.push_back({names[i], devices[i].device_fault, devices[i].state, devices[i].reason});
  }
  return each;
}

State MergedState(const Statuses& statuses) {
  for (State state :
       {State::kFailed, State::kDraining, State::kLoading, State::kWarming, State::kDegraded}) {
    const auto is_in = [&](const ServerStatus& status) { return status.state == state; };
    if (absl::c_any_of(statuses, is_in)) return state;
  }
  return State::kReady;
}

// Reasons of the devices that are in that state; without their names where all say the same.
std::string MergedReason(const std::vector<std::string>& devices, const Statuses& statuses,
                         State state) {
  std::set<std::string> different;
  std::vector<std::string> reasons;
  for (size_t i = 0; i < statuses.size(); ++i) {
    const bool in_state = statuses[i].state == state;
    different.insert(in_state ? statuses[i].reason : "");
    if (!in_state || statuses[i].reason.empty()) continue;
    reasons.push_back(absl::StrCat(devices[i], ": ", statuses[i].reason));
  }
  return different.size() == 1 ? *different.begin() : absl::StrJoin(reasons, "; ");
}

// A bucket is ready where it is on one of them, which draws its images then.
std::vector<ServerStatus::Bucket> MergedBuckets(const Statuses& statuses) {
  std::vector<ServerStatus::Bucket> all;
  for (const ServerStatus& status : statuses) {
    for (const ServerStatus::Bucket& bucket : status.buckets) {
      const auto found = absl::c_find_if(all, [&](const ServerStatus::Bucket& other) {
        return other.model == bucket.model && other.size == bucket.size;
      });
      if (found == all.end()) {
        all.push_back(bucket);
      } else if (bucket.ready) {
        *found = bucket;
      }
    }
  }
  return all;
}

bool MayFollow(State from, State to) {
  return to == from ||
         (from != State::kDraining && (from != State::kFailed || to == State::kDraining));
}

}  // namespace

StatusBoard::StatusBoard(const Clock& clock, metrics::Registry& registry,
                         std::vector<std::string> devices)
    : clock_(clock), registry_(registry), names_(std::move(devices)), devices_(names_.size()) {
  absl::MutexLock lock(&mutex_);
  status_.started = clock.Wall();
  status_.ready = absl::InfiniteFuture();
  last_notified_ = status_;
  Publish();
}

ServerStatus StatusBoard::status() const {
  absl::MutexLock lock(&mutex_);
  return status_;
}

State StatusBoard::state() const {
  absl::MutexLock lock(&mutex_);
  return status_.state;
}

void StatusBoard::AddListener(StatusListener listener) {
  absl::MutexLock lock(&mutex_);
  listeners_.push_back(std::move(listener));
}

void StatusBoard::Update(absl::FunctionRef<void(ServerStatus&)> change, size_t device) {
  absl::MutexLock lock(&mutex_);
  ServerStatus& own = devices_[device];
  ServerStatus changed = own;
  change(changed);
  if (!MayFollow(own.state, changed.state)) {
    changed.state = own.state;
    changed.reason = own.reason;
  }
  if (changed == own) return;
  own = std::move(changed);
  ServerStatus all = Merged();
  const bool serves = all.state == State::kReady || all.state == State::kDegraded;
  if (serves && all.ready == absl::InfiniteFuture()) all.ready = clock_.Wall();
  if (all == status_) return;
  status_ = std::move(all);
  Publish();
  Notify();
}

ServerStatus StatusBoard::Merged() const {
  Statuses counted;
  std::vector<std::string> names;
  for (size_t i = 0; i < devices_.size(); ++i) {
    if (HasFailed(devices_[i])) continue;
    counted.push_back(devices_[i]);
    names.push_back(names_[i]);
  }
  if (!counted.empty()) {
    ServerStatus all = Merge(names, counted);
    AddFaults(FaultsOf(names_, devices_, " has failed: "), all);
    return all;
  }
  ServerStatus all = Merge(names_, devices_);
  all.device_fault = FaultsOf(names_, devices_, devices_.size() > 1 ? ": " : "");
  return all;
}

ServerStatus StatusBoard::Merge(const std::vector<std::string>& names,
                                const std::vector<ServerStatus>& devices) const {
  ServerStatus all{.started = status_.started, .ready = status_.ready};
  all.state = MergedState(devices);
  all.reason = MergedReason(names, devices, all.state);
  all.buckets = MergedBuckets(devices);
  all.devices = EachDevice(names_, devices_);
  ServerStatus::GraphCount shared_steps;
  size_t through = 0;
  for (const ServerStatus& one : devices) {
    all.graphs_done += one.graphs_done;
    all.graphs_total += one.graphs_total;
    if (!one.shared_steps.has_value()) continue;
    ++through;
    shared_steps.ready += one.shared_steps->ready;
    shared_steps.total += one.shared_steps->total;
  }
  if (through == devices.size()) all.shared_steps = shared_steps;
  return all;
}

void StatusBoard::Notify() {
  if (notifier_ == std::this_thread::get_id()) return;  // a listener's; the loop below goes on
  const auto nobody_notifies = [this]() ABSL_EXCLUSIVE_LOCKS_REQUIRED(mutex_) {
    return notifier_ == std::thread::id();
  };
  mutex_.Await(absl::Condition(&nobody_notifies));
  notifier_ = std::this_thread::get_id();
  while (last_notified_ != status_) {
    last_notified_ = status_;
    const ServerStatus news = status_;
    const std::vector<StatusListener> listeners = listeners_;
    mutex_.Unlock();
    for (const StatusListener& listener : listeners) listener(news);
    mutex_.Lock();
  }
  notifier_ = std::thread::id();
}

void StatusBoard::Publish() {
  for (size_t i = 0; i < std::size(kStates); ++i) {
    const bool is_this = i == static_cast<size_t>(status_.state);
    registry_.GetGauge(metrics::kServerState, {kStates[i]}).Set(is_this ? 1 : 0);
  }
  if (status_.ready == absl::InfiniteFuture()) return;
  registry_.GetGauge(metrics::kReadyTimestamp)
      .Set(absl::ToDoubleSeconds(status_.ready - absl::UnixEpoch()));
}

}  // namespace latentd::engine
