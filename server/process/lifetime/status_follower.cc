#include "server/process/lifetime/status_follower.h"

#include <utility>

namespace latentd::server::process {

StatusFollower::StatusFollower(engine::Engine& engine, Function on_change)
    : listener_(std::make_shared<Listener>()) {
  Set(std::move(on_change), *listener_);
  engine.OnStatusChange(
      [listener = listener_](const engine::ServerStatus& status) { Call(status, *listener); });
  Call(engine.status(), *listener_);
}

void StatusFollower::Call(const engine::ServerStatus& status, Listener& listener) {
  absl::MutexLock lock(&listener.mutex);
  if (listener.on_change) listener.on_change(status);
}

void StatusFollower::Set(Function on_change, Listener& listener) {
  absl::MutexLock lock(&listener.mutex);
  listener.on_change = std::move(on_change);
}

StatusFollower::~StatusFollower() { Set(nullptr, *listener_); }

}  // namespace latentd::server::process
