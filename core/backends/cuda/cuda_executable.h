// A program with its kernels, weights and a place in the arena; bound to memory and run more than
// once, a captured graph.
#pragma once

#include <cuda_runtime_api.h>

#include <memory>
#include <utility>
#include <vector>

#include "core/backends/cuda/arena.h"
#include "core/backends/cuda/bound_program.h"
#include "core/backends/executable.h"
#include "core/base/out_of_memory.h"
#include "core/device/cuda/cuda_device.h"
#include "core/weights/weight_set.h"

namespace latentd::backends::cuda {

class CudaExecutable : public Executable {
 public:
  // How programs are enqueued, one at a time: cuDNN, which they all share, has one stream at a
  // time.
  class Launcher {
   public:
    static absl::StatusOr<std::unique_ptr<Launcher>> Create();
    ~Launcher();
    Launcher(const Launcher&) = delete;

    // `work` enqueues on the stream that it is given: here, on this one.
    template <typename Work>
    absl::Status Enqueue(cudaStream_t stream, const Work& work) {
      absl::MutexLock lock(&mutex_);
      return CatchOutOfMemory([&] { return work(stream); });
    }

    // Here, on one that nobody else uses, whose kernels become a graph.
    template <typename Work>
    absl::StatusOr<cudaGraphExec_t> Capture(const Work& work) {
      absl::MutexLock lock(&mutex_);
      if (absl::Status begun = Begin(); !begun.ok()) return begun;
      return End(CatchOutOfMemory([&] { return work(capture_); }));
    }

   private:
    explicit Launcher(cudaStream_t capture) : capture_(capture) {}
    absl::Status Begin();
    absl::StatusOr<cudaGraphExec_t> End(const absl::Status& worked);

    absl::Mutex mutex_;
    const cudaStream_t capture_;
  };

  // Takes the weights and uploads the constants. `device` and `launcher` must outlive it.
  static absl::StatusOr<std::unique_ptr<CudaExecutable>> Create(
      std::shared_ptr<const graph::Graph> graph, BoundProgram bound,
      const graph::MemoryPlan& memory, std::unique_ptr<Arena::Lease> lease,
      const weights::WeightSet& weights, device::cuda::CudaDevice& device, Launcher& launcher);

  const ExecutableInfo& info() const override { return info_; }
  device::Device& device() const override { return device_; }

  absl::StatusOr<std::unique_ptr<Session>> Bind(absl::Span<const device::ConstBuffer> inputs,
                                                absl::Span<const device::Buffer> outputs) override;

  const Program& program() const { return bound_.program; }

 private:
  friend class CudaSession;

  CudaExecutable(std::shared_ptr<const graph::Graph> graph, BoundProgram bound,
                 const graph::MemoryPlan& memory, std::unique_ptr<Arena::Lease> lease,
                 device::cuda::CudaDevice& device, Launcher& launcher);
  absl::Status UploadLiterals();

  const std::shared_ptr<const graph::Graph> graph_;
  const BoundProgram bound_;
  const std::unique_ptr<Arena::Lease> lease_;
  device::cuda::CudaDevice& device_;
  Launcher& launcher_;
  ExecutableInfo info_;
  lowering::Addresses addresses_;  // without those that sessions bind
  device::Buffer literals_;
  std::vector<weights::WeightRef> held_;  // plain and packed
};

// Most sessions of text encoders and decoders run once, and to capture a program takes longer than
// to launch its kernels: so the first run launches them one by one. The second captures them, and
// from then on a run is one launch.
class CudaSession : public Session {
 public:
  // With all addresses of the executable's program.
  CudaSession(const CudaExecutable& executable, lowering::Addresses addresses)
      : executable_(executable), addresses_(std::move(addresses)) {}
  ~CudaSession() override;

  // Behind all runs that use the arena.
  absl::Status Enqueue(device::Stream& stream) override;

  // For measurements: one of the program's instructions alone, on what the last run left in the
  // arena. REQUIRES: nothing else runs.
  absl::Status EnqueueInstruction(size_t index, device::Stream& stream) const;

 private:
  // Counts those that are enqueued, before an error too.
  absl::Status EnqueueKernels(cudaStream_t stream, size_t& enqueued) const;

  const CudaExecutable& executable_;
  const lowering::Addresses addresses_;
  bool ran_ = false;
  cudaGraphExec_t graph_ = nullptr;  // from the second run on
};

}  // namespace latentd::backends::cuda
