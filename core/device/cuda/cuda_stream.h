// Streams of a GPU.
#pragma once

#include <cuda_runtime_api.h>

#include <deque>
#include <memory>
#include <utility>
#include <vector>

#include "absl/status/statusor.h"
#include "core/base/clock.h"
#include "core/device/device.h"

namespace latentd::device::cuda {

class CudaEvent;

class CudaStream : public Stream {
 public:
  // REQUIRES: the GPU is selected on this thread. `clock` must outlive the stream and its events.
  static absl::StatusOr<std::unique_ptr<CudaStream>> Create(int ordinal, const Clock& clock);
  ~CudaStream() override;

  cudaStream_t handle() const { return handle_; }

  absl::StatusOr<std::shared_ptr<const Event>> Record() override;

  absl::Status WaitFor(std::shared_ptr<const Event> event) override;

  absl::Status Synchronize() override;

  // Keeps what is enqueued next alive until an event behind it is reached and more work is
  // enqueued.
  void Keep(std::shared_ptr<const void> memory);

 private:
  CudaStream(int ordinal, const Clock& clock, cudaStream_t handle)
      : ordinal_(ordinal), clock_(clock), handle_(handle) {}

  using Kept = std::vector<std::shared_ptr<const void>>;

  // Lets go of what events that were reached have freed.
  void Sweep();
  absl::Status Anchor();

  const int ordinal_;
  const Clock& clock_;
  const cudaStream_t handle_;
  Kept kept_;  // since the last event
  std::deque<std::pair<std::shared_ptr<const CudaEvent>, Kept>> until_;
  // Whose time is known: those of later events are told from it.
  std::shared_ptr<const CudaEvent> anchor_;
};

}  // namespace latentd::device::cuda
