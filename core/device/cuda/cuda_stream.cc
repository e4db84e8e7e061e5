#include "core/device/cuda/cuda_stream.h"

#include "core/base/errors/status_macros.h"
#include "core/device/cuda/cuda_event.h"
#include "core/device/cuda/cuda_status.h"

namespace latentd::device::cuda {
namespace {

// Times are told in milliseconds as a float, which has microseconds for a few seconds only.
constexpr absl::Duration kLongestFromAnchor = absl::Seconds(4);

}  // namespace

absl::StatusOr<std::unique_ptr<CudaStream>> CudaStream::Create(int ordinal, const Clock& clock) {
  cudaStream_t handle = nullptr;
  RETURN_IF_ERROR(
      ToStatus(cudaStreamCreateWithFlags(&handle, cudaStreamNonBlocking), "making a stream"));
  std::unique_ptr<CudaStream> stream(new CudaStream(ordinal, clock, handle));
  ASSIGN_OR_RETURN(stream->anchor_, CudaEvent::Record(ordinal, handle, clock, nullptr));
  return stream;
}

CudaStream::~CudaStream() {
  if (!SelectToGiveBack(ordinal_)) return;
  cudaStreamSynchronize(handle_);
  cudaStreamDestroy(handle_);
}

// CUDA looks at the event as it was recorded. What is kept says that the stream is not idle, so
// that none makes the host wait for it (Anchor).
absl::Status CudaStream::WaitFor(std::shared_ptr<const Event> event) {
  RETURN_IF_ERROR(SelectGpu(ordinal_));
  const auto& other = static_cast<const CudaEvent&>(*event);
  RETURN_IF_ERROR(
      ToStatus(cudaStreamWaitEvent(handle_, other.handle(), 0), "waiting for another stream"));
  kept_.push_back(std::move(event));
  return absl::OkStatus();
}

absl::Status CudaStream::Synchronize() {
  RETURN_IF_ERROR(SelectGpu(ordinal_));
  return ToStatus(cudaStreamSynchronize(handle_), "the GPU's work");
}

void CudaStream::Keep(std::shared_ptr<const void> memory) {
  Sweep();
  Anchor().IgnoreError();  // a failure of the device is reported by the next work enqueued
  kept_.push_back(std::move(memory));
}

void CudaStream::Sweep() {
  while (!until_.empty() && until_.front().first->Reached()) {
    const std::shared_ptr<const CudaEvent>& reached = until_.front().first;
    if (reached->time() > anchor_->time() + kLongestFromAnchor) anchor_ = reached;
    until_.pop_front();
  }
}

// The GPU's clock drifts from the host's: a stream that has been idle begins with a new anchor.
absl::Status CudaStream::Anchor() {
  const bool idle = until_.empty() && kept_.empty();
  if (!idle || clock_.Monotonic() < anchor_->time() + kLongestFromAnchor) return absl::OkStatus();
  RETURN_IF_ERROR(Synchronize());
  ASSIGN_OR_RETURN(anchor_, CudaEvent::Record(ordinal_, handle_, clock_, nullptr));
  return absl::OkStatus();
}

absl::StatusOr<std::shared_ptr<const Event>> CudaStream::Record() {
  Sweep();
  ASSIGN_OR_RETURN(std::shared_ptr<const CudaEvent> event,
                   CudaEvent::Record(ordinal_, handle_, clock_, anchor_));
  // Kept memory stays in kept_ until its new place exists.
  until_.emplace_back();
  until_.back().first = event;
  until_.back().second.swap(kept_);
  return event;
}

}  // namespace latentd::device::cuda
