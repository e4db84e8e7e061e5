#include "core/engine/status_board.h"

#include <utility>

namespace latentd::engine {
namespace {

// In the order of State.
constexpr const char* kStates[] = {"loading", "warming", "ready", "degraded", "draining", "failed"};

bool MayFollow(State from, State to) {
  return to == from ||
         (from != State::kDraining && (from != State::kFailed || to == State::kDraining));
}

}  // namespace

StatusBoard::StatusBoard(const Clock& clock, metrics::Registry& registry)
    : clock_(clock), registry_(registry) {
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

void StatusBoard::AddListener(Engine::StatusListener listener) {
  absl::MutexLock lock(&mutex_);
  listeners_.push_back(std::move(listener));
}

void StatusBoard::Update(absl::FunctionRef<void(ServerStatus&)> change) {
  absl::MutexLock lock(&mutex_);
  ServerStatus changed = status_;
  change(changed);
  if (!MayFollow(status_.state, changed.state)) {
    changed.state = status_.state;
    changed.reason = status_.reason;
  }
  const bool serves = changed.state == State::kReady || changed.state == State::kDegraded;
  if (serves && changed.ready == absl::InfiniteFuture()) changed.ready = clock_.Wall();
  if (changed == status_) return;
  status_ = std::move(changed);
  Publish();
  Notify();
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
    const std::vector<Engine::StatusListener> listeners = listeners_;
    mutex_.Unlock();
    for (const Engine::StatusListener& listener : listeners) listener(news);
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
