// A GPU by CUDA's runtime.
#pragma once

#include <cuda_runtime_api.h>

#include <cstddef>
#include <cstdint>
#include <memory>
#include <string>

#include "core/device/cuda/staging.h"
#include "core/device/device.h"
#include "core/device/heap.h"
#include "core/device/memory_pool.h"

namespace latentd::device::cuda {

struct CudaProperties {
  std::string name;            // "NVIDIA H100 80GB HBM3"
  int compute_capability = 0;  // 90
  int multiprocessors = 0;
  int64_t memory_bytes = 0;
  int driver_version = 0, runtime_version = 0;  // 13000 is 13.0
};

class CudaDevice : public Device {
 public:
  // FAILED_PRECONDITION, which says what to do: no driver, one that is too old, no GPU of that
  // number, or one of a compute capability below 8.0.
  static absl::StatusOr<std::unique_ptr<CudaDevice>> Open(int ordinal = 0);
  // REQUIRES: its streams are gone. Its memory may outlive it.
  ~CudaDevice() override;

  const CudaProperties& properties() const { return properties_; }

  absl::StatusOr<Buffer> Allocate(DType dtype, Shape shape, Place place) override;
  // One behind the other in pieces of 64 MiB, which go back to CUDA when nothing lies in them.
  absl::StatusOr<Buffer> AllocatePacked(DType dtype, Shape shape) override;
  absl::StatusOr<std::unique_ptr<Stream>> NewStream(const Clock& clock) override;
  // The driver's free memory and the idle memory of the pool and of CUDA's own for streams; not the
  // holes between what is packed, which only more of that can fill. A fault, or INTERNAL, where the
  // driver does not answer.
  absl::StatusOr<AvailableMemory> Available() const override;
  bool SharesHostMemory() const override { return false; }
  // Idle memory includes that of CUDA's pool for streams, and the holes between packed blocks.
  DeviceMemory Memory() const override;
  void GiveBack(Kept what) override;
  // No other GPU reaches what is packed, which is weights.
  absl::Status Meet(const Device& other) override;
  absl::Status Copy(ConstBuffer from, Buffer to, Stream& stream) override;

  // Enqueues a copy of pageable memory of the host to the GPU, and returns when it has been read:
  // several threads beside each other are as fast as they read it. REQUIRES: this GPU is selected.
  absl::Status Upload(const void* from, void* to, size_t bytes, cudaStream_t stream) {
    return staging_.Upload(from, to, bytes, stream);
  }

  // Selects the GPU: needed on each thread before it calls CUDA.
  absl::Status Select() const;

  // Gives idle memory of the pool and of CUDA's own for streams back: for code that asks CUDA
  // itself and gets none.
  void Trim();

  int ordinal() const { return ordinal_; }

 private:
  CudaDevice(int ordinal, CudaProperties properties);
  absl::Status ReservePacked();
  // False where the driver does not answer.
  absl::Status AskDriver(size_t& free, size_t& total) const;
  // Zeros it.
  absl::StatusOr<Buffer> WrapOnGpu(std::shared_ptr<void> memory, DType dtype, Shape shape);

  const int ordinal_;
  const CudaProperties properties_;
  const std::shared_ptr<MemoryPool> memory_, pinned_;
  std::shared_ptr<Heap> packed_;
  cudaStream_t fills_ = nullptr;  // zeros into what is taken
  Staging staging_;
};

}  // namespace latentd::device::cuda
