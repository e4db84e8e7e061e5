// Calls a function with the engine's status after every change of it, one call at a time, for as
// long as the follower lives: the engine keeps its listeners for ever.
#pragma once

#include <functional>
#include <memory>

#include "absl/base/thread_annotations.h"
#include "absl/synchronization/mutex.h"
#include "core/engine/api/status.h"
#include "core/engine/engine.h"

namespace latentd::server::process {

// REQUIRES: made before engine.Load() is called; destroyed before the engine.
class StatusFollower {
 public:
  using Function = std::function<void(const engine::ServerStatus&)>;

  // `on_change` also gets the status as it is now. It must not block.
  StatusFollower(engine::Engine& engine, Function on_change);
  ~StatusFollower();

 private:
  struct Listener {
    absl::Mutex mutex;
    Function on_change ABSL_GUARDED_BY(mutex);  // null once the follower is gone
  };
  static void Call(const engine::ServerStatus& status, Listener& listener);
  static void Set(Function on_change, Listener& listener);

  const std::shared_ptr<Listener> listener_;
};

}  // namespace latentd::server::process
