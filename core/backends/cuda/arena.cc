#include "core/backends/cuda/arena.h"

#include "absl/strings/str_cat.h"
#include "core/base/errors/out_of_memory.h"
#include "core/base/errors/status_macros.h"
#include "core/device/cuda/cuda_status.h"

namespace latentd::backends::cuda {

using device::cuda::SelectToGiveBack;
using device::cuda::ToStatus;

absl::StatusOr<std::shared_ptr<Arena>> Arena::Reserve(device::cuda::CudaDevice& device,
                                                      size_t bytes) {
  RETURN_IF_ERROR(device.Select());
  ASSIGN_OR_RETURN(auto range,
                   device::cuda::AddressRange::Reserve(device.ordinal(), bytes, kPiece));
  cudaEvent_t last_run = nullptr;
  RETURN_IF_ERROR(
      ToStatus(cudaEventCreateWithFlags(&last_run, cudaEventDisableTiming), "making an event"));
  return std::shared_ptr<Arena>(new Arena(device, std::move(range), last_run));
}

Arena::~Arena() {
  if (SelectToGiveBack(device_.ordinal())) cudaEventDestroy(last_run_);
}

absl::Status Arena::Grow() {
  absl::Status grown = range_->Map(pieces_);
  if (absl::IsResourceExhausted(grown)) {
    device_.Trim();
    grown = range_->Map(pieces_);
  }
  RETURN_IF_ERROR(grown);
  ++pieces_;
  return absl::OkStatus();
}

absl::StatusOr<std::unique_ptr<Arena::Lease>> Arena::Take(size_t bytes) {
  const auto none = [bytes] {
    return OutOfMemoryError(absl::StrCat("no GPU memory for ", bytes, " bytes of intermediates"));
  };
  absl::MutexLock lock(&mutex_);
  while (mapped() < bytes) {
    if (pieces_ == range_->pieces()) return none();
    const absl::Status grown = Grow();
    if (absl::IsResourceExhausted(grown)) return none();
    RETURN_IF_ERROR(grown);
  }
  leases_.insert(bytes);
  return std::make_unique<Lease>(shared_from_this(), bytes);
}

// Waits for the last run, which may use the pieces that only this lease needs, and unmaps them.
void Arena::Release(size_t bytes) {
  const bool idle =
      SelectToGiveBack(device_.ordinal()) && cudaEventSynchronize(last_run_) == cudaSuccess;
  absl::MutexLock lock(&mutex_);
  leases_.erase(leases_.find(bytes));
  const size_t needed = leases_.empty() ? 0 : *leases_.rbegin();
  while (idle && mapped() >= needed + kPiece) range_->Unmap(--pieces_);
}

size_t Arena::bytes() const {
  absl::MutexLock lock(&mutex_);
  return leases_.empty() ? 0 : *leases_.rbegin();
}

absl::Status Arena::AwaitLast(cudaStream_t stream) {
  if (last_ == stream) return absl::OkStatus();
  return ToStatus(cudaStreamWaitEvent(stream, last_run_, 0), "waiting for the arena");
}

// The run is on the stream in any case: what cannot wait for it on the GPU must find it done.
absl::Status Arena::Remember(cudaStream_t stream) {
  last_ = stream;
  const absl::Status recorded = ToStatus(cudaEventRecord(last_run_, stream), "recording an event");
  if (recorded.ok()) return recorded;
  return ToStatus(cudaStreamSynchronize(stream), "waiting for a run");
}

}  // namespace latentd::backends::cuda
