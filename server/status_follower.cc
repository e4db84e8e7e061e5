#include "server/status_follower.h"

#include <utility>

namespace latentd::server {

StatusFollower::StatusFollower(engine::Engine& engine, Function on_change)
    : listener_(std::make_shared<Listener>()) {
  {
    absl::MutexLock lock(&listener_->mutex);
    listener_->on_change = std::move(on_change);
  }
  engine.OnStatusChange([&engine, listener = listener_] { Call(engine, *listener); });
  Call(engine, *listener_);
}

// The status is asked for under the lock, so that a call never gets an older one than the call
// before it.
void StatusFollower::Call(engine::Engine& engine, Listener& listener) {
  absl::MutexLock lock(&listener.mutex);
  if (listener.on_change) listener.on_change(engine.status());
}

StatusFollower::~StatusFollower() {
  absl::MutexLock lock(&listener_->mutex);
  listener_->on_change = nullptr;
}

}  // namespace latentd::server
