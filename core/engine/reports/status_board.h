// A StatusBoard shows the server's status to its readers and listeners. Each of its devices has a
// status of its own there, and the server's follows from them: its state is that of the device that
// is least far, or could not load. What one of several devices says names it: "device 1: ...". A
// device with a fault counts no more while others are left, but that the server is degraded.
//
// Thread-safe.
#pragma once

#include <cstddef>
#include <string>
#include <thread>
#include <vector>

#include "absl/base/thread_annotations.h"
#include "absl/functional/function_ref.h"
#include "absl/synchronization/mutex.h"
#include "core/base/clock.h"
#include "core/engine/api/status.h"
#include "core/metrics/registry.h"

namespace latentd::engine {

class StatusBoard {
 public:
  // Both must outlive the board. `devices` are their names, in the order of their numbers.
  StatusBoard(const Clock& clock, metrics::Registry& registry,
              std::vector<std::string> devices = {""});

  ServerStatus status() const ABSL_LOCKS_EXCLUDED(mutex_);
  State state() const ABSL_LOCKS_EXCLUDED(mutex_);

  // As Engine::OnStatusChange.
  void AddListener(StatusListener listener) ABSL_LOCKS_EXCLUDED(mutex_);

  // Changes the status of a device, one after the other. If the server's is another then, the
  // listeners are told, without a lock, before this returns; but where a listener calls it, after
  // that listener returns. No state ever leaves kDraining or kFailed but from kFailed to kDraining.
  void Update(absl::FunctionRef<void(ServerStatus&)> change, size_t device = 0)
      ABSL_LOCKS_EXCLUDED(mutex_);

 private:
  // Works out the server's status from those of its devices, but for its times.
  ServerStatus Merged() const ABSL_EXCLUSIVE_LOCKS_REQUIRED(mutex_);
  // Works it out from those devices alone; a lone one is named as if there were no other.
  ServerStatus Merge(const std::vector<std::string>& names,
                     const std::vector<ServerStatus>& devices) const
      ABSL_EXCLUSIVE_LOCKS_REQUIRED(mutex_);
  void Publish() ABSL_EXCLUSIVE_LOCKS_REQUIRED(mutex_);
  // Releases the lock for each call.
  void Notify() ABSL_EXCLUSIVE_LOCKS_REQUIRED(mutex_);

  const Clock& clock_;
  metrics::Registry& registry_;
  const std::vector<std::string> names_;
  mutable absl::Mutex mutex_;
  std::vector<ServerStatus> devices_ ABSL_GUARDED_BY(mutex_);
  ServerStatus status_ ABSL_GUARDED_BY(mutex_);
  ServerStatus last_notified_ ABSL_GUARDED_BY(mutex_);  // the listeners' last status
  std::thread::id notifier_ ABSL_GUARDED_BY(mutex_);    // none: no thread calls listeners
  std::vector<StatusListener> listeners_ ABSL_GUARDED_BY(mutex_);
};

// The status of one device on the board.
class DeviceStatus {
 public:
  DeviceStatus(StatusBoard& board, size_t device) : board_(board), device_(device) {}

  void Update(absl::FunctionRef<void(ServerStatus&)> change) { board_.Update(change, device_); }

 private:
  StatusBoard& board_;
  const size_t device_;
};

}  // namespace latentd::engine
