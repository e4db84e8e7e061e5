// When a device gives back what it keeps for reuse (device::Device::GiveBack), so that pictures
// find it as they come, and memory that is no longer needed is there for other programs.
//
// Once when the start is over: graphs have had their first runs, which took memory that pictures
// will not ask for in such pieces. From then on memory unused for a minute, once a minute,
// on the Preparer's thread: that may wait for the device as long as it likes.
//
// Thread-safe.
#pragma once

#include "absl/base/thread_annotations.h"
#include "absl/synchronization/mutex.h"
#include "absl/time/time.h"
#include "core/base/clock.h"
#include "core/device/device.h"
#include "core/engine/prepare/preparer.h"

namespace latentd::engine {

class KeptMemory {
 public:
  // So long it is kept, and at most twice as long.
  static constexpr absl::Duration kUnused = absl::Minutes(1);

  // All must outlive this, and the preparer have stopped before it goes.
  KeptMemory(device::Device& device, Preparer& preparer, const Clock& clock)
      : device_(device), preparer_(preparer), clock_(clock) {}

  // Before it returns.
  void GiveBackAll() { device_.GiveBack(device::Kept::kAll); }

  // To be called every second or so; returns at once.
  void GiveBackUnused() ABSL_LOCKS_EXCLUDED(mutex_);

 private:
  bool IsDue() ABSL_LOCKS_EXCLUDED(mutex_);

  device::Device& device_;
  Preparer& preparer_;
  const Clock& clock_;
  absl::Mutex mutex_;
  bool waits_ ABSL_GUARDED_BY(mutex_) = false;  // a task that does it
  absl::Time next_ ABSL_GUARDED_BY(mutex_) = absl::InfinitePast();
};

}  // namespace latentd::engine
