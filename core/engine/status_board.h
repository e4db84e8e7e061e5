// The server's status, for its readers and listeners.
//
// Thread-safe.
#pragma once

#include <thread>
#include <vector>

#include "absl/base/thread_annotations.h"
#include "absl/functional/function_ref.h"
#include "absl/synchronization/mutex.h"
#include "core/base/clock.h"
#include "core/engine/engine.h"
#include "core/metrics/registry.h"

namespace latentd::engine {

class StatusBoard {
 public:
  // Both must outlive the board.
  StatusBoard(const Clock& clock, metrics::Registry& registry);

  ServerStatus status() const ABSL_LOCKS_EXCLUDED(mutex_);
  State state() const ABSL_LOCKS_EXCLUDED(mutex_);

  // As Engine::OnStatusChange.
  void AddListener(Engine::StatusListener listener) ABSL_LOCKS_EXCLUDED(mutex_);

  // Changes the status, one after the other. If it is another then, the listeners are told, without
  // a lock, before this returns; but where a listener calls it, after that listener returns. The
  // state never leaves kDraining or kFailed but from kFailed to kDraining.
  void Update(absl::FunctionRef<void(ServerStatus&)> change) ABSL_LOCKS_EXCLUDED(mutex_);

 private:
  void Publish() ABSL_EXCLUSIVE_LOCKS_REQUIRED(mutex_);
  // Releases the lock for each call.
  void Notify() ABSL_EXCLUSIVE_LOCKS_REQUIRED(mutex_);

  const Clock& clock_;
  metrics::Registry& registry_;
  mutable absl::Mutex mutex_;
  ServerStatus status_ ABSL_GUARDED_BY(mutex_);
  ServerStatus last_notified_ ABSL_GUARDED_BY(mutex_);  // the listeners' last status
  std::thread::id notifier_ ABSL_GUARDED_BY(mutex_);    // none: no thread calls listeners
  std::vector<Engine::StatusListener> listeners_ ABSL_GUARDED_BY(mutex_);
};

}  // namespace latentd::engine
