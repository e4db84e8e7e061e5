#include "core/weights/idle_streams.h"

#include <utility>

#include "core/base/clock.h"
#include "core/base/errors/status_macros.h"

namespace latentd::weights {

absl::StatusOr<std::unique_ptr<device::Stream>> IdleStreams::Take() {
  {
    absl::MutexLock lock(&mutex_);
    if (!idle_.empty()) {
      std::unique_ptr<device::Stream> stream = std::move(idle_.back());
      idle_.pop_back();
      return stream;
    }
  }
  return device_.NewStream(SystemClock());
}

absl::Status IdleStreams::Finish(std::unique_ptr<device::Stream> stream) {
  RETURN_IF_ERROR(stream->Synchronize());
  absl::MutexLock lock(&mutex_);
  idle_.push_back(std::move(stream));
  return absl::OkStatus();
}

}  // namespace latentd::weights
