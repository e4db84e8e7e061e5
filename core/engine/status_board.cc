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

void StatusBoard::AddListener(std::function<void()> listener) {
  absl::MutexLock lock(&mutex_);
  listeners_.push_back(std::move(listener));
}

void StatusBoard::Update(absl::FunctionRef<void(ServerStatus&)> change) {
  std::vector<std::function<void()>> listeners;
  {
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
    listeners = listeners_;
  }
  for (const auto& listener : listeners) listener();
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
