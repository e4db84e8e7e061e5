// Streams of a device for work that threads wait for: slow to make and to end, so that they are
// kept.
//
// Thread-safe.
#pragma once

#include <memory>
#include <vector>

#include "absl/base/thread_annotations.h"
#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "absl/synchronization/mutex.h"
#include "core/device/device.h"

namespace latentd::weights {

class IdleStreams {
 public:
  // `device` must outlive it.
  explicit IdleStreams(device::Device& device) : device_(device) {}
  IdleStreams(const IdleStreams&) = delete;

  // One without work.
  absl::StatusOr<std::unique_ptr<device::Stream>> Take() ABSL_LOCKS_EXCLUDED(mutex_);
  // Waits for its work, and puts it back if none has failed.
  absl::Status Finish(std::unique_ptr<device::Stream> stream) ABSL_LOCKS_EXCLUDED(mutex_);

 private:
  device::Device& device_;
  absl::Mutex mutex_;
  std::vector<std::unique_ptr<device::Stream>> idle_ ABSL_GUARDED_BY(mutex_);
};

}  // namespace latentd::weights
