#include "server/status_follower.h"

#include <utility>

namespace latentd::server {

StatusFollower::StatusFollower(engine::Engine& engine, Function on_change)
    : listener_(std::make_shared<Listener>()) {
  {
    absl::MutexLock lock(&listener_->mutex);
    listener_->on_change = std::move(on_change);
  }
  engine.OnStatusChange(
      [listener = listener_](const engine::ServerStatus& status) { Call(status, *listener); });
  Call(engine.status(), *listener_);
}

void StatusFollower::Call(const engine::ServerStatus& status, Listener& listener) {
  absl::MutexLock lock(&listener.mutex);
  if (listener.on_change) listener.on_change(status);
}

StatusFollower::~StatusFollower() {
  absl::MutexLock lock(&listener_->mutex);
  listener_->on_change = nullptr;
}

}  // namespace latentd::server
