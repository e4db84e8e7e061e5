// Places in a stream of a GPU.
#pragma once

#include <cuda_runtime_api.h>

#include <memory>
#include <optional>

#include "absl/base/thread_annotations.h"
#include "absl/status/statusor.h"
#include "absl/synchronization/mutex.h"
#include "core/base/clock.h"
#include "core/device/device.h"

namespace latentd::device::cuda {

class CudaEvent : public Event {
 public:
  // Records it in the stream. `anchor` was reached earlier; null: this one is an anchor, which
  // REQUIRES that the stream is idle, and its time is that of `clock`.
  static absl::StatusOr<std::shared_ptr<const CudaEvent>> Record(
      int ordinal, cudaStream_t stream, const Clock& clock,
      std::shared_ptr<const CudaEvent> anchor);
  ~CudaEvent() override;

  bool Reached() const override;
  absl::Status Wait() const override;
  cudaEvent_t handle() const { return event_; }

  // The GPU's clock tells how long after the anchor.
  absl::Time time() const override ABSL_LOCKS_EXCLUDED(mutex_);

 private:
  CudaEvent(int ordinal, cudaEvent_t event, std::shared_ptr<const CudaEvent> anchor)
      : ordinal_(ordinal), event_(event), anchor_(std::move(anchor)) {}

  const int ordinal_;
  const cudaEvent_t event_;
  mutable absl::Mutex mutex_;
  mutable std::shared_ptr<const CudaEvent> anchor_ ABSL_GUARDED_BY(mutex_);  // until time_ is known
  mutable std::optional<absl::Time> time_ ABSL_GUARDED_BY(mutex_);
};

}  // namespace latentd::device::cuda
