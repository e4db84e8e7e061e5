// A program with its kernels, weights and a place in the arena; bound to memory, a captured graph.
#pragma once

#include <cuda_runtime_api.h>

#include <memory>
#include <utility>
#include <vector>

#include "core/backends/cuda/arena.h"
#include "core/backends/cuda/bound_program.h"
#include "core/backends/cuda/idle_graphs.h"
#include "core/backends/executable.h"
#include "core/base/out_of_memory.h"
#include "core/device/cuda/cuda_device.h"
#include "core/weights/weight_set.h"

namespace latentd::backends::cuda {

class CudaExecutable : public Executable {
 public:
  // A stream that nobody else uses, on which sessions are captured, one at a time: cuDNN has one
  // stream at a time too.
  class Capture {
   public:
    static absl::StatusOr<std::unique_ptr<Capture>> Create();
    ~Capture();
    Capture(const Capture&) = delete;

    // What `work` enqueues on the stream that it is given.
    template <typename Work>
    absl::StatusOr<cudaGraphExec_t> Record(const Work& work) {
      absl::MutexLock lock(&mutex_);
      if (absl::Status begun = Begin(); !begun.ok()) return begun;
      ++recorded_;
      return End(CatchOutOfMemory([&] { return work(stream_); }));
    }

    int64_t recorded() const {
      absl::MutexLock lock(&mutex_);
      return recorded_;
    }

   private:
    explicit Capture(cudaStream_t stream) : stream_(stream) {}
    absl::Status Begin();
    absl::StatusOr<cudaGraphExec_t> End(const absl::Status& worked);

    mutable absl::Mutex mutex_;
    int64_t recorded_ ABSL_GUARDED_BY(mutex_) = 0;
    const cudaStream_t stream_;
  };

  // Takes the weights and uploads the constants. `device` and `capture` must outlive it.
  static absl::StatusOr<std::unique_ptr<CudaExecutable>> Create(
      std::shared_ptr<const graph::Graph> graph, BoundProgram bound,
      const graph::MemoryPlan& memory, std::unique_ptr<Arena::Lease> lease,
      const weights::WeightSet& weights, device::cuda::CudaDevice& device, Capture& capture);

  const ExecutableInfo& info() const override { return info_; }
  device::Device& device() const override { return device_; }

  absl::StatusOr<std::unique_ptr<Session>> Bind(absl::Span<const device::ConstBuffer> inputs,
                                                absl::Span<const device::Buffer> outputs) override;

  const Program& program() const { return bound_.program; }

 private:
  friend class CudaSession;

  CudaExecutable(std::shared_ptr<const graph::Graph> graph, BoundProgram bound,
                 const graph::MemoryPlan& memory, std::unique_ptr<Arena::Lease> lease,
                 device::cuda::CudaDevice& device, Capture& capture);
  absl::Status UploadLiterals();
  absl::StatusOr<cudaGraphExec_t> CaptureWith(const lowering::Addresses& addresses);

  const std::shared_ptr<const graph::Graph> graph_;
  const BoundProgram bound_;
  const std::unique_ptr<Arena::Lease> lease_;
  device::cuda::CudaDevice& device_;
  Capture& capture_;
  ExecutableInfo info_;
  lowering::Addresses addresses_;  // without those that sessions bind
  device::Buffer literals_;
  std::vector<weights::WeightRef> held_;  // plain and packed
  IdleGraphs idle_graphs_;
};

class CudaSession : public Session {
 public:
  // With all addresses of the executable's program, and those of the ports again.
  CudaSession(CudaExecutable& executable, lowering::Addresses addresses, PortAddresses ports,
              cudaGraphExec_t graph)
      : executable_(executable),
        addresses_(std::move(addresses)),
        ports_(std::move(ports)),
        graph_(graph) {}
  ~CudaSession() override;

  // One launch, behind all runs that use the arena.
  absl::Status Enqueue(device::Stream& stream) override;

  // For measurements: one of the program's instructions alone, on what the last run left in the
  // arena. REQUIRES: nothing else runs.
  absl::Status EnqueueInstruction(size_t index, device::Stream& stream) const;

 private:
  CudaExecutable& executable_;
  const lowering::Addresses addresses_;
  PortAddresses ports_;
  const cudaGraphExec_t graph_;
};

}  // namespace latentd::backends::cuda
