#include "core/device/cuda/cuda_event.h"

#include <utility>

#include "core/base/errors/status_macros.h"
#include "core/device/cuda/cuda_status.h"
#include "core/device/device_fault.h"

namespace latentd::device::cuda {

absl::StatusOr<std::shared_ptr<const CudaEvent>> CudaEvent::Record(
    int ordinal, cudaStream_t stream, const Clock& clock, std::shared_ptr<const CudaEvent> anchor) {
  RETURN_IF_ERROR(SelectGpu(ordinal));
  const bool is_anchor = anchor == nullptr;
  cudaEvent_t handle = nullptr;
  RETURN_IF_ERROR(
      ToStatus(cudaEventCreateWithFlags(&handle, cudaEventBlockingSync), "making an event"));
  std::shared_ptr<CudaEvent> event(new CudaEvent(ordinal, handle, std::move(anchor)));
  RETURN_IF_ERROR(ToStatus(cudaEventRecord(handle, stream), "recording an event"));
  if (is_anchor) {
    RETURN_IF_ERROR(ToStatus(cudaEventSynchronize(handle), "waiting for the GPU"));
    absl::MutexLock lock(&event->mutex_);
    event->time_ = clock.Monotonic();
  }
  return event;
}

CudaEvent::~CudaEvent() {
  if (SelectToGiveBack(ordinal_)) cudaEventDestroy(event_);
}

// A device that failed has come to an end too.
bool CudaEvent::Reached() const {
  if (IsGivenUp(ordinal_)) return true;
  const cudaError_t error = cudaEventQuery(event_);
  if (error != cudaSuccess) cudaGetLastError();  // or the next launch would be told of it
  return error != cudaErrorNotReady;
}

absl::Status CudaEvent::Wait() const {
  if (IsGivenUp(ordinal_)) return FaultError("the GPU's work: it has failed");
  return ToStatus(cudaEventSynchronize(event_), "the GPU's work");
}

absl::Time CudaEvent::time() const {
  absl::MutexLock lock(&mutex_);
  if (!time_.has_value()) {
    float milliseconds = 0;  // stays 0 where the device failed
    if (!IsGivenUp(ordinal_)) cudaEventElapsedTime(&milliseconds, anchor_->event_, event_);
    time_ = anchor_->time() + absl::Milliseconds(milliseconds);
    anchor_.reset();
  }
  return *time_;
}

}  // namespace latentd::device::cuda
